-- Move schedules to their next times.
update poll.schedule s set
    next_at = r.next_at,
    last_at = coalesce(r.last_at, s.last_at),
    last_job = coalesce(r.last_job, s.last_job),
    done_at = coalesce(r.done_at, s.done_at)
from jsonb_to_recordset(:rows) r(
    name text, next_at timestamptz, last_at timestamptz, last_job text, done_at timestamptz)
where s.name = r.name
