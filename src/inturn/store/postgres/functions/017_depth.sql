-- How many jobs of a queue are not started: waiting, blocked, scheduled or between attempts.
-- Read from lanes and tails, never by counting the log.
create or replace function inturn.depth(p_queue text) returns bigint language sql stable as $$
    select
        coalesce((
            select sum(t.last - l.cursor + 1)
            from inturn.lane l
            join inturn.tail t on t.lane = l.id
            where l.queue = p_queue and l.active
        ), 0)::bigint
        - (
            select count(*)
            from inturn.cancelled c
            join inturn.lane l on l.id = c.lane
            where l.queue = p_queue and c.position >= l.cursor
        )
        + (select count(*) from inturn.parked where queue = p_queue and token is null)
        + (select count(*) from inturn.blocked where queue = p_queue)
$$;
