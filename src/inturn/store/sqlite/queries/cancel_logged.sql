-- Write a job that stands in line down as cancelled, with its place, which claims pass over.
insert into cancelled (id, queue, key, kind, payload, priority, round, attempts_max,
                       timeout_seconds, enqueued_at, lane, position, cancelled_at, cancelled_by,
                       reason)
select id, queue, key, kind, payload, priority, round, attempts_max, timeout_seconds,
       enqueued_at, lane, position, ?1, ?2, ?3
from log where id = ?4
