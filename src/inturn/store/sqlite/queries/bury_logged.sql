-- Make a job of the log a dead letter. Its row in the log stays until it is pruned.
insert into dead (id, queue, key, kind, payload, priority, round, attempts_max, timeout_seconds,
                  enqueued_at, attempts, errors, reason, died_at)
select id, queue, key, kind, payload, priority, round, attempts_max, timeout_seconds,
       enqueued_at, ?1, ?2, ?3, ?4
from log where lane = ?5 and position = ?6
