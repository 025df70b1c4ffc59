-- Lanes whose own row does not hold together: a sentence for each fault.
with seen as (
    select lane.*, tail.last, tail.lane as tail_lane,
           'lane ' || lane.id || ' (' || iif(lane.key is null, 'open', quote(lane.key))
               || ' of queue ' || quote(lane.queue) || ')' as name,
           job.id as job_id, job.kind as job_kind, job.priority as job_priority,
           job.round as job_round, job.enqueued_at as job_enqueued_at, queue.aging_seconds
    from lane
    left join tail on tail.lane = lane.id
    left join job on job.lane = lane.id and job.position = lane.cursor
    left join queue on queue.name = lane.queue
)
select name || ' has no tail.' from seen where tail_lane is null
union all
select name || ' belongs to no queue.' from seen where aging_seconds is null
union all
select name || ' is not active although positions ' || cursor || ' to ' || last
    || ' wait in it: they are stranded.'
from seen where not active and last >= cursor
union all
select name || ' is active with nothing to do.' from seen
where active and token is null and last < cursor
union all
select name || ' has its cursor at ' || cursor || ', beyond its last position ' || last || '.'
from seen where cursor > last + 1
union all
select name || ' has its head at ' || head || ', beyond its cursor ' || cursor || '.'
from seen where head > cursor
union all
select name || ' holds positions ' || head || ' to ' || (cursor - 1) || ' back without a lease.'
from seen where key is not null and token is null and head < cursor
union all
select name || ' is under lease ' || token || ' with no position leased.'
from seen where token is not null and head >= cursor
union all
select name || ' is under lease ' || token || ' and not active.'
from seen where token is not null and not active
union all
select name || ' is under lease ' || token || ' and yet waits for a time to come.'
from seen where token is not null and ready_at is not null
union all
select name || ' may be claimed and has no rank: no claim finds it.'
from seen where active and last >= cursor and token is null and ready_at is null
  and halted_at is null and paused_at is null and rank_at is null
union all
select name || ' has a rank and must not be claimed.'
from seen where rank_at is not null and (not active or token is not null or ready_at is not null
  or halted_at is not null or paused_at is not null)
union all
select name || ' has another rank than its head gives it.'
from seen where rank_at is not null
  and rank_at <> job_enqueued_at - cast(round(priority * aging_seconds * 1000000) as integer)
union all
select name || ' does not know its head as it is.'
from seen where active and token is null and halted_at is null
  and (kind, priority, round) <> (job_kind, job_priority, job_round)
union all
select name || ' has a cancelled job at its cursor.'
from seen where token is null and halted_at is null
  and exists (select 1 from cancelled where lane = seen.id and position = seen.cursor)
union all
select name || ' is halted on job ' || uuid(halted_job) || ', which is not its head.'
from seen where halted_at is not null and halted_job is not job_id
union all
select name || ' is halted on job ' || uuid(halted_job)
    || ', which is not among the dead letters.'
from seen where halted_at is not null
  and not exists (select 1 from dead where dead.id = seen.halted_job)
union all
select name || ' has suspects up to position ' || suspect_last || ', and '
    || iif(key is null, 'an open lane has none.', 'its last is ' || last || '.')
from seen where suspect_last > iif(key is null, 0, last)
union all
select name || ' counts ' || head_attempt || ' attempts of its head, which may have '
    || attempts_max || '.'
from (select seen.*, job.attempts_max from seen
      join job on job.lane = seen.id and job.position = seen.head)
where key is not null and halted_at is null and head_attempt > attempts_max - (token is null)
union all
select name || ' counts ' || head_attempt || ' attempts and ' || head_crashes
    || ' crashes, and has no head.'
from seen where (key is null or (token is null and last < cursor))
  and (head_attempt > 0 or head_crashes > 0)
union all
select name || ' says that its first waiting job was accepted at another time than it was.'
from seen where waiting_since is not (
    select enqueued_at from job
    where job.lane = seen.id and position >= seen.cursor + (seen.halted_at is not null)
      and not exists (select 1 from cancelled
                      where cancelled.lane = seen.id and cancelled.position = job.position)
    order by position limit 1)
