-- When the next delayed job or retry of these queues is due, a lane is to be looked at again, or a
-- rate lets something start again, and what time it is there. What was due by $2, a time for each
-- queue, is known and does not count: it is still there because nobody here may take it. One look
-- into an index for each queue and kind of wait.
select min(least(delayed.run_at, parked.run_at, suspect.run_at, asleep.ready_at,
                 unsure.look_at, place.free_at)) as due,
       clock_timestamp() as now
from unnest($1::text[], $2::timestamptz[]) as q(name, known_at)
left join lateral (
    select run_at from inturn.parked
    where queue = q.name and delayed and run_at > q.known_at order by run_at limit 1
) delayed on true
left join lateral (
    select run_at from inturn.parked
    where queue = q.name and token is null and not suspect and not delayed and run_at > q.known_at
    order by run_at limit 1
) parked on true
left join lateral (
    select run_at from inturn.parked
    where queue = q.name and token is null and suspect and run_at > q.known_at
    order by run_at limit 1
) suspect on true
left join lateral (
    select ready_at from inturn.lane where queue = q.name and ready_at > q.known_at
    order by ready_at limit 1
) asleep on true
left join lateral (
    select look_at from inturn.lane where queue = q.name and look_at > q.known_at
    order by look_at limit 1
) unsure on true
left join lateral (
    select f.free_at
    from inturn.queue r
    join inturn.limited l on l.queue = r.name and l.starts >= r.rate
    cross join lateral (
        select min(s.started_at) + inturn.rate_window(r.rate_seconds) as free_at
        from inturn.start s where s.queue = r.name
    ) f
    where r.name = q.name and f.free_at > q.known_at
) place on true
