-- What another worker has in its hands it fires.
select name, rule, catch_up, job, alone, next_at, last_at, last_job, done_at,
       paused_at, paused_by
from poll.schedule
where paused_at is null and next_at <= :now
  and name in (select jsonb_array_elements_text(:names::text::jsonb))
order by next_at, name
limit 1000
for update skip locked
