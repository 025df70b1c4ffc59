-- An open lane whose tail nobody holds, locked; a new one when all are taken.
--
-- A line that has grown long is shared out over a few lanes, so that many consumers need not take
-- turns at one: of the lanes, one with the fewest thousands of jobs is taken, the oldest first.
-- At "repeatable read" and above a tail that moved since the snapshot cannot be locked; such a
-- producer gets a lane of its own rather than an error, for no order is promised between open
-- lanes.
create or replace function inturn.open_lane(
    p_queue text, p_kind text, p_priority integer, p_round integer, p_taken bigint[]
) returns bigint language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_bitmapscan = off set plan_cache_mode = force_generic_plan as $$
declare
    v_lane bigint;
begin
    if current_setting('transaction_isolation') = 'read committed' then
        v_lane := inturn.free_open_lane(p_queue, p_kind, p_priority, p_round, p_taken);
    else
        begin
            v_lane := inturn.free_open_lane(p_queue, p_kind, p_priority, p_round, p_taken);
        exception when serialization_failure then
            v_lane := null;
        end;
    end if;
    if v_lane is null then
        perform inturn.make_queues(array[p_queue]);
        insert into inturn.tail (queue, round) values (p_queue, p_round) returning lane into v_lane;
        insert into inturn.lane (id, queue, kind, priority, round)
        values (v_lane, p_queue, p_kind, p_priority, p_round);
    end if;
    return v_lane;
end $$;

-- The open lane to append to, its tail locked; null when there is none, or when those there are
-- have long lines and there are fewer than four.
create or replace function inturn.free_open_lane(
    p_queue text, p_kind text, p_priority integer, p_round integer, p_taken bigint[]
) returns bigint language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_bitmapscan = off set plan_cache_mode = force_generic_plan as $$
declare
    v_lane bigint;
    v_thousands bigint;
begin
    select t.lane, (t.last - l.cursor + 1) / 1000 into v_lane, v_thousands
    from inturn.lane l
    join inturn.tail t on t.lane = l.id
    where l.queue = p_queue and l.key is null and l.kind = p_kind and l.priority = p_priority
      and l.round = p_round and l.id <> all(array_remove(p_taken, null))
    order by (t.last - l.cursor + 1) / 1000, l.id
    limit 1
    for update of t skip locked;
    if v_thousands > 0 and 4 > (
        select count(*) from inturn.lane l
        where l.queue = p_queue and l.key is null and l.kind = p_kind and l.priority = p_priority
          and l.round = p_round
    ) then
        return null;
    end if;
    return v_lane;
end $$;
