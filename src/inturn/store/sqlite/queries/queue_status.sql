-- What a queue holds, read from its counters, and its oldest waiting job, from three indexes.
-- Only parked jobs that came due since the last claim are counted one by one. A lane whose head is
-- between attempts waits with the job behind it: it is looked into where it is older than the first
-- of the other lanes, and nowhere else.
with due as (
    select count(*) as jobs, min(enqueued_at) as oldest_at from parked
    where queue = :queue and token is null and rank_at is null and attempt = 0 and run_at <= :now
)
select depth.waiting, depth.lanes, depth.halted, depth.resting, depth.scheduled, due.jobs,
       depth.retrying, depth.fresh, depth.blocked, depth.dead,
       (select min(oldest_at) from (
            select (select waiting_since from lane
                    where queue = :queue and waiting_since is not null
                      and (token is not null or halted_at is not null or head_attempt = 0)
                    order by waiting_since limit 1) as oldest_at
            union all
            select (select enqueued_at from job
                    where job.lane = lane.id and job.position > lane.cursor
                      and not exists (select 1 from cancelled
                                      where cancelled.lane = job.lane
                                        and cancelled.position = job.position)
                    order by job.position limit 1)
            from lane
            where queue = :queue and token is null and halted_at is null and head_attempt > 0
              and waiting_since < coalesce(
                  (select waiting_since from lane
                   where queue = :queue and waiting_since is not null
                     and (token is not null or halted_at is not null or head_attempt = 0)
                   order by waiting_since limit 1), 9223372036854775807)
            union all
            select min(enqueued_at) from parked
            where queue = :queue and rank_at is not null and attempt = 0
            union all
            select due.oldest_at))
from depth cross join due
where depth.queue = :queue
