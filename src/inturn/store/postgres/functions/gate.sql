-- Open the next round that has jobs, if nothing of the open rounds is unfinished.
--
-- What decides is counted by one statement, so by one snapshot: a job on its way from one place to
-- another is seen in exactly one of them.
create or replace function inturn.advance_gate(p_queue text) returns table (
    round integer, advanced boolean, unfinished bigint, exhausted boolean
) language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
    q inturn.queue;
    v_next integer;
begin
    select * into q from inturn.queue where name = p_queue for update;
    if not found then
        raise exception 'there is no queue %', p_queue using errcode = 'IT007';
    end if;
    -- With work at hand the first thousand of each place will do to say that there is some.
    select n.unfinished into unfinished from inturn.unfinished(p_queue, q.gate, q.on_dead, 1000) n;
    if unfinished = 0 then
        select n.unfinished, n.next_round into unfinished, v_next
        from inturn.unfinished(p_queue, q.gate, q.on_dead, null) n;
    end if;
    advanced := unfinished = 0 and v_next is not null;
    exhausted := unfinished = 0 and v_next is null;
    round := case when advanced then v_next else q.gate end;
    if advanced then
        update inturn.queue set gate = v_next where name = p_queue;
        perform pg_notify('inturn', p_queue);
    end if;
    return next;
end $$;

-- How much of a queue's open rounds is unfinished, and the next round that has jobs. With
-- p_rows_max no more than so many rows of each place are looked at, and no round is looked for.
create or replace function inturn.unfinished(
    p_queue text, p_gate integer, p_on_dead text, p_rows_max integer,
    out unfinished bigint, out next_round integer
) language plpgsql stable
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_bitmapscan = off as $$
#variable_conflict use_column
begin
    select
        -- What waits in lanes, or is leased of keyed ones: the whole line if its last round is
        -- open, else what of it is open.
        coalesce((
            select sum(n.jobs) from (
                select
                    case
                        when t.round <= p_gate or l.key is null then t.last - l.cursor + 1
                        else (
                            select count(*) from inturn.job j
                            where j.lane = l.id and j.position >= l.cursor and j.round <= p_gate)
                    end
                    - case
                        when l.cursor > l.cancelled_last then 0
                        else (
                            select count(*) from inturn.cancelled c
                            where c.lane = l.id and c.position >= l.cursor and c.round <= p_gate)
                    end
                    + case when l.token is null then 0 else l.cursor - l.head end as jobs
                from inturn.active_lanes(p_queue) l
                cross join lateral (
                    select o.last, o.round from inturn.tail o where o.lane = l.id limit 1) t
                where l.round <= p_gate
                limit p_rows_max
            ) n
        ), 0)
        -- What is leased of open lanes.
        + coalesce((
            select sum(r.last - r.first + 1 - coalesce((
                select sum(upper(s) - lower(s)) from unnest(r.settled) s
            ), 0))
            from inturn.run r
            where (select l.queue from inturn.lane l where l.id = r.lane) = p_queue
        ), 0)
        -- What is set aside; a halted lane's head is dead, and was counted in its lane.
        + (
            select count(*) from (
                (
                    select from inturn.parked p
                    where p.queue = p_queue and p.delayed and p.round <= p_gate
                    limit p_rows_max
                )
                union all
                (
                    select from inturn.parked p
                    where p.queue = p_queue and p.token is null and not p.suspect
                      and not p.delayed and p.round <= p_gate
                    limit p_rows_max
                )
                union all
                (
                    select from inturn.parked p
                    where p.queue = p_queue and p.token is null and p.suspect
                      and p.round <= p_gate
                    limit p_rows_max
                )
                union all
                (
                    select from inturn.parked p
                    where p.token is not null and p.queue = p_queue and p.round <= p_gate
                    limit p_rows_max
                )
                union all
                (
                    select from inturn.blocked b
                    where b.queue = p_queue and b.round <= p_gate
                    limit p_rows_max
                )
            ) n
        )
        + case
            when p_on_dead = 'halt' then (
                select count(*) from (
                    select from inturn.dead d
                    where d.queue = p_queue and d.round <= p_gate
                      and not exists (
                          select from inturn.lane l
                          where l.id = inturn.lane_of(d.queue, d.key) and l.halted_job = d.id)
                    limit p_rows_max
                ) n
            )
            else 0
        end,
        case when p_rows_max is null then (
            select min(n.round)
            from (
                select l.round
                from inturn.active_lanes(p_queue) l
                join inturn.tail t on t.lane = l.id
                where l.round > p_gate and t.last >= l.cursor
                union all
                select (
                    select min(j.round) from inturn.job j
                    where j.lane = l.id and j.position >= l.cursor and j.round > p_gate)
                from inturn.active_lanes(p_queue) l
                join inturn.tail t on t.lane = l.id
                where l.key is not null and l.round <= p_gate and t.round > p_gate
                union all
                select b.round from inturn.blocked b where b.queue = p_queue and b.round > p_gate
                union all
                select p.round from inturn.parked p where p.queue = p_queue and p.round > p_gate
            ) n
        ) end
    into unfinished, next_round;
end $$;
