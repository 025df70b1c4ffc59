-- One schedule, which nobody else changes until the transaction ends.
select name, rule, catch_up, job, alone, next_at, last_at, last_job, done_at,
       paused_at, paused_by
from poll.schedule
where name = :name
for update
