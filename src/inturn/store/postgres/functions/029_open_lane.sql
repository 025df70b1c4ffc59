-- An open lane whose tail nobody holds, locked; a new one when all are taken.
-- At "repeatable read" and above a tail that moved since the snapshot cannot be locked; such a
-- producer gets a lane of its own rather than an error, for no order is promised between open
-- lanes.
create or replace function inturn.open_lane(
    p_queue text, p_kind text, p_priority integer, p_round integer, p_taken bigint[]
) returns bigint language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
    set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan as $$
declare
    v_lane bigint;
begin
    if current_setting('transaction_isolation') = 'read committed' then
        select t.lane into v_lane
        from inturn.lane l join inturn.tail t on t.lane = l.id
        where l.queue = p_queue and l.key is null and l.kind = p_kind and l.priority = p_priority
            and l.round = p_round
          and l.id <> all(array_remove(p_taken, null))
        order by l.id limit 1 for update of t skip locked;
    else
        begin
            select t.lane into v_lane
            from inturn.lane l join inturn.tail t on t.lane = l.id
            where l.queue = p_queue and l.key is null and l.kind = p_kind
                and l.priority = p_priority and l.round = p_round
              and l.id <> all(array_remove(p_taken, null))
            order by l.id limit 1 for update of t skip locked;
        exception when serialization_failure then
            v_lane := null;
        end;
    end if;
    if v_lane is null then
        insert into inturn.queue (name) select p_queue
        where not exists (select from inturn.queue where name = p_queue)
        on conflict do nothing;
        insert into inturn.lane (queue, kind, priority, round)
        values (p_queue, p_kind, p_priority, p_round) returning id into v_lane;
        insert into inturn.tail (lane, round) values (v_lane, p_round);
    end if;
    return v_lane;
end $$;
