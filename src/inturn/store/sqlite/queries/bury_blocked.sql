-- Make a blocked job a dead letter; no attempt was made.
insert into dead (id, queue, key, kind, payload, priority, round, attempts_max, timeout_seconds,
                  enqueued_at, attempts, errors, reason, died_at)
select id, queue, key, kind, payload, priority, round, attempts_max, timeout_seconds,
       enqueued_at, 0, '[]', ?1, ?2
from blocked where id = ?3
