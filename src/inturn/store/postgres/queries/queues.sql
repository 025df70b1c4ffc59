-- Every queue's settings, depth and oldest age, at the time $1.
-- Depth is read from lanes and tails and never by counting the log, so a million jobs in a few
-- lanes cost as much as one. One statement, so one snapshot: a job on its way is seen in one place.
-- "rests": the head of a keyed lane that is not waiting, being between attempts or dead. The
-- oldest job of a line is the first from its cursor on: a keyed lane whose head waits knows when
-- that was accepted, for any other lane it is one look into the log.
with passed as (
    select l.id, count(*) as jobs
    from inturn.cancelled c join inturn.lane l on l.id = c.lane and c.position >= l.cursor
    group by l.id
), line as (
    select l.id, l.queue, l.key, l.cursor, l.token, l.halted_at,
           t.last - l.cursor + 1 - coalesce(c.jobs, 0) as depth,
           case when c.jobs is null then l.waiting_since end as since, h.retries,
           h.retries or l.halted_at is not null as rests
    from inturn.lane l
    join inturn.tail t on t.lane = l.id
    left join passed c on c.id = l.id
    cross join lateral (
        select l.key is not null and l.token is null and l.halted_at is null
               and l.head_attempt > 0 as retries
    ) h
    where l.active
), lanes as (
    select queue, sum(depth - rests::integer)::bigint as waiting, sum(retries::integer) as retrying,
           count(*) filter (where depth > 0 or token is not null) as lanes,
           count(halted_at) as halted,
           min(case when depth <= rests::integer then null
                    when since is not null and key is not null and token is null and not rests
                         then since
                    else (select j.enqueued_at from inturn.job j
                          where j.lane = line.id and j.position >= line.cursor + rests::integer
                            and not exists (select from inturn.cancelled c
                                            where c.lane = j.lane and c.position = j.position)
                          order by j.position limit 1) end) as oldest_at
    from line group by queue
), leased as (
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
), dead as (
    select queue, count(*) as dead from inturn.dead group by queue
)
select q.name, q.on_dead, q.depth_max, q.lane_depth_max, q.keep_done_seconds, q.aging_seconds,
       q.gate, q.paused_by,
       coalesce(n.waiting, 0) + coalesce(d.waiting, 0) + coalesce(p.waiting, 0) as waiting,
       coalesce(e.running, 0) as running,
       coalesce(d.scheduled, 0) + coalesce(p.scheduled, 0) as scheduled,
       coalesce(n.retrying, 0) + coalesce(p.retrying, 0) as retrying,
       coalesce(b.blocked, 0) as blocked, coalesce(x.dead, 0) as dead,
       coalesce(n.lanes, 0) as lanes, coalesce(n.halted, 0) as halted,
       least(n.oldest_at, u.oldest_at, p.oldest_at) as oldest_at
from inturn.queue q
left join lanes n on n.queue = q.name
left join leased e on e.queue = q.name
left join delayed d on d.queue = q.name
left join due u on u.queue = q.name
left join parked p on p.queue = q.name
left join blocked b on b.queue = q.name
left join dead x on x.queue = q.name
order by q.name
