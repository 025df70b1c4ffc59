-- The log's jobs whole, by the name that PostgreSQL has for them.
drop view logged;
create view log as
select job.id, lane.queue, lane.key, job.kind, job.payload, job.priority, job.round,
       job.attempts_max, job.timeout_seconds, job.enqueued_at, job.lane, job.position
from job join lane on lane.id = job.lane;
