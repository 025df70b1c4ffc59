-- The counters of every queue against a count of everything.
with counted as (
    select queue.name as queue,
        (select coalesce(sum(tail.last - lane.cursor + 1 - (
             select count(*) from cancelled
             where cancelled.lane = lane.id and cancelled.position >= lane.cursor)), 0)
         from lane join tail on tail.lane = lane.id where lane.queue = queue.name) as waiting,
        (select count(*) from lane where lane.queue = queue.name and active) as lanes,
        (select count(*) from lane where lane.queue = queue.name and halted_at is not null)
            as halted,
        (select count(*) from lane where lane.queue = queue.name and token is null
           and halted_at is null and head_attempt > 0) as resting,
        (select count(*) from parked where parked.queue = queue.name and token is null
           and attempt = 0 and rank_at is null) as scheduled,
        (select count(*) from parked where parked.queue = queue.name and token is null
           and attempt > 0) as retrying,
        (select count(*) from parked where parked.queue = queue.name and rank_at is not null
           and attempt = 0) as fresh,
        (select count(*) from blocked where blocked.queue = queue.name) as blocked,
        (select count(*) from dead where dead.queue = queue.name) as dead
    from queue
)
select 'the counters of queue ' || counted.queue || ' are not what it holds: '
    || 'waiting ' || depth.waiting || ' and ' || counted.waiting
    || ', lanes ' || depth.lanes || ' and ' || counted.lanes
    || ', halted ' || depth.halted || ' and ' || counted.halted
    || ', resting ' || depth.resting || ' and ' || counted.resting
    || ', scheduled ' || depth.scheduled || ' and ' || counted.scheduled
    || ', retrying ' || depth.retrying || ' and ' || counted.retrying
    || ', fresh ' || depth.fresh || ' and ' || counted.fresh
    || ', blocked ' || depth.blocked || ' and ' || counted.blocked
    || ', dead ' || depth.dead || ' and ' || counted.dead || '.'
from counted join depth on depth.queue = counted.queue
where (depth.waiting, depth.lanes, depth.halted, depth.resting, depth.scheduled, depth.retrying,
       depth.fresh, depth.blocked, depth.dead)
   <> (counted.waiting, counted.lanes, counted.halted, counted.resting, counted.scheduled,
       counted.retrying, counted.fresh, counted.blocked, counted.dead)
union all
select 'queue ' || name || ' has no counters.'
from queue where not exists (select 1 from depth where depth.queue = queue.name)
