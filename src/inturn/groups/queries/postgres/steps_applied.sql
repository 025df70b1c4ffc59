-- Steps whose actions have returned. The limit tells PostgreSQL that they are few: without it a
-- young table is read whole, 3.3 ms in place of 0.1 for 25 of 10,000 steps.
update groups.step s
set state = 'applied', is_doubtful = false, ended_at = :now
from (
  select * from jsonb_to_recordset(:rows) as given(group_id text, number integer, token bigint)
  limit jsonb_array_length(:rows)
) r
where s.group_id = r.group_id and s.number = r.number and s.token = r.token
  and s.state = 'running'
