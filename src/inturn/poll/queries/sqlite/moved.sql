-- Move schedules to their next times.
update poll.schedule set
    next_at = r.value ->> 'next_at',
    last_at = coalesce(r.value ->> 'last_at', last_at),
    last_job = coalesce(r.value ->> 'last_job', last_job),
    done_at = coalesce(r.value ->> 'done_at', done_at)
from json_each(:rows) r
where poll.schedule.name = r.value ->> 'name'
