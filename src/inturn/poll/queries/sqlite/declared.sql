-- Write schedules as the code has them.
insert into poll.schedule (name, rule, catch_up, job, alone, next_at)
select value ->> 'name', value ->> 'rule', value ->> 'catch_up', value ->> 'job',
       value ->> 'alone', value ->> 'next_at'
from json_each(:rows)
where true
on conflict (name) do update set
    rule = excluded.rule, catch_up = excluded.catch_up, job = excluded.job,
    alone = excluded.alone, next_at = excluded.next_at
