-- Steps whose actions have returned.
update groups.step s
set state = 'applied', is_doubtful = false, ended_at = :now
from jsonb_to_recordset(:rows) as r(group_id text, number integer, token bigint)
where s.group_id = r.group_id and s.number = r.number and s.token = r.token
  and s.state = 'running'
