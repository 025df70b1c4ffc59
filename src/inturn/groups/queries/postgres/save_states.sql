-- The next states of many steps.
update groups.step s
set state = r.state, job = coalesce(r.job, s.job), undo_job = coalesce(r.undo_job, s.undo_job),
  error = coalesce(r.error, s.error)
from jsonb_to_recordset(:rows)
  as r(group_id text, number integer, state text, job text, undo_job text, error text)
where s.group_id = r.group_id and s.number = r.number
