-- Write schedules that were locked, or are new.
insert into poll.schedule (
    name, rule, catch_up, job, alone, next_at, last_at, last_job, paused_by)
select value ->> 'name', value ->> 'rule', value ->> 'catch_up', value ->> 'job',
       value ->> 'alone', value ->> 'next_at', value ->> 'last_at', value ->> 'last_job',
       value ->> 'paused_by'
from json_each(:rows)
where true
on conflict (name) do update set
    rule = excluded.rule, catch_up = excluded.catch_up, job = excluded.job,
    alone = excluded.alone, next_at = excluded.next_at, last_at = excluded.last_at,
    last_job = excluded.last_job, paused_by = excluded.paused_by
