-- Write schedules as the code has them.
insert into poll.schedule as s (name, rule, catch_up, job, alone, next_at)
select r.name, r.rule, r.catch_up, r.job, r.alone, r.next_at
from jsonb_to_recordset(:rows) r(
    name text, rule text, catch_up text, job text, alone boolean, next_at timestamptz)
on conflict (name) do update set
    rule = excluded.rule, catch_up = excluded.catch_up, job = excluded.job,
    alone = excluded.alone, next_at = excluded.next_at
