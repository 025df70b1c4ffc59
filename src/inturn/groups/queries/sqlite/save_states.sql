-- The next states of many steps.
update groups.step
set state = r.value ->> 'state', job = coalesce(r.value ->> 'job', job),
  undo_job = coalesce(r.value ->> 'undo_job', undo_job),
  error = coalesce(r.value ->> 'error', error)
from json_each(:rows) r
where group_id = r.value ->> 'group_id' and number = r.value ->> 'number'
