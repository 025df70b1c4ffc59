-- Every queue's settings, depth and oldest age, at the time $1; those of $2 were just recounted.
-- Depth is read from lanes and tails and never by counting the log, so a million jobs in a few
-- lanes cost as much as one. One statement, so one snapshot: a job on its way is seen in one place.
with leased as (
    select queue, sum(unsettled)::bigint as running from inturn.lease group by queue
), delayed as (
    select queue, count(*) filter (where run_at > $1::timestamptz) as scheduled,
           count(*) filter (where run_at <= $1) as waiting
    from inturn.parked where delayed group by queue
), due as (
    select queue, min(enqueued_at) as oldest_at
    from inturn.parked where delayed and run_at <= $1 group by queue
), parked as (
    select queue, count(*) filter (where attempt > 0) as retrying,
           count(*) filter (where attempt = 0 and run_at > $1) as scheduled,
           count(*) filter (where attempt = 0 and run_at <= $1) as waiting,
           min(enqueued_at) filter (where attempt = 0 and run_at <= $1) as oldest_at
    from inturn.parked where not delayed and token is null group by queue
), blocked as (
    select queue, count(*) as blocked from inturn.blocked group by queue
), starts as (
    select s.queue, sum(s.jobs)::bigint as starts
    from inturn.start s
    join inturn.queue q on q.name = s.queue
    where s.started_at > $1 - inturn.rate_window(q.rate_seconds) group by s.queue
), dead as (
    select queue, count(*) as dead from inturn.dead group by queue
)
select q.name, q.on_dead, q.depth_max, q.lane_depth_max, q.keep_done_seconds, q.aging_seconds,
       q.replay, q.suspects, q.running_max, q.rate, q.rate_seconds, q.local,
       q.gate, q.paused_by, coalesce(s.starts, 0) as starts,
       n.waiting + coalesce(d.waiting, 0) + coalesce(p.waiting, 0) as waiting,
       coalesce(e.running, 0) as running,
       coalesce(d.scheduled, 0) + coalesce(p.scheduled, 0) as scheduled,
       n.retrying + coalesce(p.retrying, 0) as retrying,
       coalesce(b.blocked, 0) as blocked, coalesce(x.dead, 0) as dead,
       n.lanes, n.halted, n.many,
       least(n.oldest_at, u.oldest_at, p.oldest_at) as oldest_at
from inturn.queue q
cross join lateral inturn.lanes_counted(q.name, q.name = any($2::text[])) n
left join leased e on e.queue = q.name
left join delayed d on d.queue = q.name
left join due u on u.queue = q.name
left join parked p on p.queue = q.name
left join blocked b on b.queue = q.name
left join dead x on x.queue = q.name
left join starts s on s.queue = q.name
order by q.name
