-- Make a parked job a dead letter; the caller takes it out of parked.
insert into dead (id, queue, key, kind, payload, priority, round, attempts_max, timeout_seconds,
                  enqueued_at, attempts, errors, reason, died_at)
select id, queue, key, kind, payload, priority, round, attempts_max, timeout_seconds,
       enqueued_at, attempt, ?1, ?2, ?3
from parked where id = ?4
