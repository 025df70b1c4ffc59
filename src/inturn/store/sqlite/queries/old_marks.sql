-- The newest mark of each of some lanes that is old enough for what lies before it to go.
select mark.lane, max(mark.position)
from mark
cross join lane on lane.id = mark.lane
cross join queue on queue.name = lane.queue
where mark.lane > ?2 and mark.lane <= ?3
  and mark.marked_at <= ?1 - cast(round(queue.keep_done_seconds * 1000000) as integer)
group by mark.lane
