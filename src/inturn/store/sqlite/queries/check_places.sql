-- Jobs that are in two places at once, so that they could run twice.
-- A job that was set aside may keep its row in the log, but only behind the cursor and in no run; a
-- halted lane's head is dead in its place, and a cancelled job keeps its place until it is passed.
with aside as (
    select id, 'dead' as place, null as lane, null as position from dead
    union all
    select id, 'cancelled', lane, position from cancelled
    union all
    select id, 'blocked', null, null from blocked
    union all
    select id, 'parked', null, null from parked
), standing as (
    select aside.id, aside.place, job.lane, job.position
    from aside join job on job.id = aside.id join lane on lane.id = job.lane
    where (job.position >= iif(lane.key is null, lane.cursor, lane.head)
           or exists (select 1 from run
                      where run.lane = job.lane and job.position between run.first and run.last
                        and not exists (
                            select 1 from json_each(as_ranges(run.settled)) as settled
                            where job.position between json_extract(settled.value, '$[0]')
                                                   and json_extract(settled.value, '$[1]'))))
      and not (aside.place = 'dead' and lane.halted_job is aside.id)
      and not (aside.place = 'cancelled' and job.position >= lane.cursor
               and (aside.lane, aside.position) = (job.lane, job.position))
)
select 'job ' || uuid(id) || ' is in several places: ' || group_concat(place, ', ') || '.'
from aside group by id having count(*) > 1
union all
select 'job ' || uuid(id) || ' is ' || place || ', and yet stands at position ' || position
    || ' of lane ' || lane || '.'
from standing
union all
select 'job ' || uuid(job.id) || ' is blocked or delayed, and yet is in the log.'
from job where exists (select 1 from blocked where blocked.id = job.id)
   or exists (select 1 from parked where parked.id = job.id and parked.delayed)
union all
select 'job ' || uuid(cancelled.id) || ' is cancelled at position ' || cancelled.position
    || ' of lane ' || cancelled.lane || ', where another job stands.'
from cancelled join job on job.lane = cancelled.lane and job.position = cancelled.position
where job.id <> cancelled.id
union all
select 'job ' || uuid(cancelled.id) || ' was cancelled in lane ' || lane.id || ' under the key '
    || quote(cancelled.key) || ' of queue ' || quote(cancelled.queue) || ', and that lane is '
    || iif(lane.key is null, 'open', quote(lane.key)) || ' of queue ' || quote(lane.queue) || '.'
from cancelled join lane on lane.id = cancelled.lane
where (cancelled.queue, cancelled.key) is not (lane.queue, lane.key)
union all
select 'lane ' || lane.id || ' (' || quote(lane.key) || ' of queue ' || quote(lane.queue)
    || ') is halted on job ' || uuid(dead.id) || ', which has the key ' || quote(dead.key)
    || ' of queue ' || quote(dead.queue) || '.'
from lane join dead on dead.id = lane.halted_job
where (dead.queue, dead.key) is not (lane.queue, lane.key)
