-- Let a job of the log wait by itself: the whole job, so that the log may be pruned meanwhile.
insert into parked (id, queue, key, kind, payload, priority, round, attempts_max, timeout_seconds,
                    enqueued_at, delayed, run_at, attempt, errors, suspect, rank_at)
select id, queue, key, kind, payload, priority, round, attempts_max, timeout_seconds,
       enqueued_at, 0, ?1, ?2, ?3, ?4, ?5
from log where lane = ?6 and position = ?7
