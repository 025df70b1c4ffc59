-- Write a dead letter down as cancelled. It has no place in line: its lane went on behind it.
insert into cancelled (id, queue, key, kind, payload, priority, round, attempts_max,
                       timeout_seconds, enqueued_at, lane, position, cancelled_at, cancelled_by,
                       reason)
select id, queue, key, kind, payload, priority, round, attempts_max, timeout_seconds,
       enqueued_at, null, null, ?1, ?2, ?3
from dead where id = ?4
