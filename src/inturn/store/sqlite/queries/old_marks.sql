-- The newest mark of each of a queue's lanes that is old enough for what lies before it to go.
select mark.lane, max(mark.position)
from mark indexed by mark_age cross join lane on lane.id = mark.lane
where lane.queue = ?1 and mark.marked_at <= ?2
group by mark.lane
