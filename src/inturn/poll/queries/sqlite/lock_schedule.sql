-- There is one writer: nobody else changes what a transaction has read.
select name, rule, catch_up, job, alone, next_at, last_at, last_job, done_at,
       paused_at, paused_by
from poll.schedule
where name = :name
