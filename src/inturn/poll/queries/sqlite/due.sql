-- The schedules among these that are due.
select name, rule, catch_up, job, alone, next_at, last_at, last_job, done_at,
       paused_at, paused_by
from poll.schedule
where paused_at is null and next_at <= :now and name in (select value from json_each(:names))
order by next_at, name
limit 1000
