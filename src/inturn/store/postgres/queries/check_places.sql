-- Jobs that are in two places at once, so that they could run twice.
-- A job that was set aside may keep its row in the log, but only behind the cursor, in no run; a
-- halted lane's head is dead in its place, and a cancelled job keeps its place until it is passed.
with aside as (
    select id, 'dead' as place, false as never_stood, null::bigint as lane, null::bigint as position
    from inturn.dead
    union all
    select id, 'cancelled', false, lane, position from inturn.cancelled
    union all
    select id, 'blocked', true, null, null from inturn.blocked
    union all
    select id, 'parked', delayed, null, null from inturn.parked
), standing as (
    select a.id, a.place, j.lane, j.position,
           j.position >= case when l.key is null then l.cursor else l.head end
           or (l.key is null and exists (
               select from inturn.run r
               where r.lane = j.lane and j.position between r.first and r.last
                 and not r.settled @> j.position)) as live,
           a.never_stood,
           (a.place = 'dead' and l.halted_job = a.id)
           or (a.place = 'cancelled' and (a.lane, a.position) = (j.lane, j.position)
               and not (l.key is not null and j.position < l.cursor)) as excused
    from aside a join inturn.job j on j.id = a.id join inturn.lane l on l.id = j.lane
)
select format('job %s is in several places: %s.', id,
                         string_agg(place, ', ' order by place)) as said
from aside group by id having count(*) > 1
union all
select format('job %s is %s, and yet stands at position %s of lane %s.',
                 id, place, position, lane)
from standing where never_stood or (live and not excused is true)
union all
select format('job %s is cancelled at position %s of lane %s, where job %s stands.',
                 a.id, a.position, a.lane, j.id)
from aside a join inturn.job j on j.lane = a.lane and j.position = a.position
where a.id <> j.id
union all
select format('lane %s (%L of queue %L) is halted on job %s, which has the key %L of '
                 'queue %L.', l.id, l.key, l.queue, d.id, d.key, d.queue)
from inturn.lane l join inturn.dead d on d.id = l.halted_job
where (d.queue, d.key) is distinct from (l.queue, l.key)
