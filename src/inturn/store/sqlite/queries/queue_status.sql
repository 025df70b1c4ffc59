-- What a queue holds, read from its counters, and its oldest waiting job, from three indexes.
-- Only parked jobs that came due since the last claim are counted one by one.
with due as (
    select count(*) as jobs, min(enqueued_at) as oldest_at from parked
    where queue = :queue and token is null and rank_at is null and attempt = 0 and run_at <= :now
)
select depth.waiting, depth.lanes, depth.halted, depth.resting, depth.scheduled, due.jobs,
       depth.retrying, depth.fresh, depth.blocked, depth.dead,
       (select min(oldest_at) from (
            select min(waiting_since) as oldest_at from lane
            where queue = :queue and waiting_since is not null
            union all
            select min(enqueued_at) from parked
            where queue = :queue and rank_at is not null and attempt = 0
            union all
            select due.oldest_at))
from depth cross join due
where depth.queue = :queue
