-- Open the next round that has jobs, if nothing of the open rounds is unfinished.
--
-- Everything is counted by one statement, so by one snapshot: a job on its way from one place to
-- another is seen in exactly one of them.
create or replace function inturn.advance_gate(p_queue text) returns table (
    round integer, advanced boolean, unfinished bigint, exhausted boolean
) language plpgsql as $$
#variable_conflict use_column
declare
    q inturn.queue;
    v_next integer;
begin
    select * into q from inturn.queue where name = p_queue for update;
    if not found then
        raise exception 'there is no queue %', p_queue using errcode = 'IT007';
    end if;
    select
        -- What waits in lanes: the whole line if its last round is open, else what of it is open.
        coalesce((
            select sum(case
                when t.round <= q.gate or l.key is null then t.last - l.cursor + 1
                else (
                    select count(*) from inturn.job j
                    where j.lane = l.id and j.position >= l.cursor and j.round <= q.gate)
            end)
            from inturn.lane l
            join inturn.tail t on t.lane = l.id
            where l.queue = p_queue and l.active and l.round <= q.gate
        ), 0)
        - (
            select count(*)
            from inturn.cancelled c
            join inturn.lane l on l.id = c.lane
            where l.queue = p_queue and c.position >= l.cursor and c.round <= q.gate
        )
        -- What is leased, of keyed lanes and of open ones.
        + coalesce((
            select sum(l.cursor - l.head)
            from inturn.lane l
            where l.queue = p_queue and l.token is not null
        ), 0)
        + coalesce((
            select sum(r.last - r.first + 1 - coalesce((
                select sum(upper(s) - lower(s)) from unnest(r.settled) s
            ), 0))
            from inturn.run r
            join inturn.lane l on l.id = r.lane
            where l.queue = p_queue
        ), 0)
        -- What is set aside; a halted lane's head is dead, and was counted in its lane.
        + (select count(*) from inturn.parked p where p.queue = p_queue and p.round <= q.gate)
        + (select count(*) from inturn.blocked b where b.queue = p_queue and b.round <= q.gate)
        + case
            when q.on_dead = 'halt' then (
                select count(*)
                from inturn.dead d
                where d.queue = p_queue and d.round <= q.gate
                  and not exists (
                      select from inturn.lane l where l.queue = p_queue and l.halted_job = d.id)
            )
            else 0
        end,
        (
            select min(n.round)
            from (
                select l.round
                from inturn.lane l
                join inturn.tail t on t.lane = l.id
                where l.queue = p_queue and l.active and l.round > q.gate and t.last >= l.cursor
                union all
                select (
                    select min(j.round) from inturn.job j
                    where j.lane = l.id and j.position >= l.cursor and j.round > q.gate)
                from inturn.lane l
                join inturn.tail t on t.lane = l.id
                where l.queue = p_queue and l.active and l.key is not null
                  and l.round <= q.gate and t.round > q.gate
                union all
                select b.round from inturn.blocked b where b.queue = p_queue and b.round > q.gate
                union all
                select p.round from inturn.parked p where p.queue = p_queue and p.round > q.gate
            ) n
        )
    into unfinished, v_next;
    advanced := unfinished = 0 and v_next is not null;
    exhausted := unfinished = 0 and v_next is null;
    round := case when advanced then v_next else q.gate end;
    if advanced then
        update inturn.queue set gate = v_next where name = p_queue;
        perform pg_notify('inturn', p_queue);
    end if;
    return next;
end $$;
