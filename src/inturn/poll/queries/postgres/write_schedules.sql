-- Write schedules that were locked, or are new.
insert into poll.schedule (
    name, rule, catch_up, job, alone, next_at, last_at, last_job, paused_by)
select name, rule, catch_up, job, alone, next_at, last_at, last_job, paused_by
from jsonb_to_recordset(:rows) r(
    name text, rule text, catch_up text, job text, alone boolean, next_at timestamptz,
    last_at timestamptz, last_job text, paused_by text)
on conflict (name) do update set
    rule = excluded.rule, catch_up = excluded.catch_up, job = excluded.job,
    alone = excluded.alone, next_at = excluded.next_at, last_at = excluded.last_at,
    last_job = excluded.last_job, paused_by = excluded.paused_by
