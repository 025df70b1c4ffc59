-- Write a blocked or parked job down as cancelled; the caller takes it out of where it was.
insert into cancelled (id, queue, key, kind, payload, priority, round, attempts_max,
                       timeout_seconds, enqueued_at, lane, position, cancelled_at, cancelled_by,
                       reason)
select id, queue, key, kind, payload, priority, round, attempts_max, timeout_seconds,
       enqueued_at, null, null, ?1, ?2, ?3
from (select id, queue, key, kind, payload, priority, round, attempts_max, timeout_seconds,
             enqueued_at
      from blocked where id = ?4
      union all
      select id, queue, key, kind, payload, priority, round, attempts_max, timeout_seconds,
             enqueued_at
      from parked where id = ?4)
