-- Right before steps run: from here on they may be applied. Those that are not plainly to run stay
-- as they are, and are not returned. Right because whoever stops a group holds its row: this waits,
-- and then finds it stopped; or it comes first, and who stops the group sees the step running.
with wanted as (
  select * from jsonb_to_recordset(:rows)
    as r(group_id text, number integer, job text, token bigint)
), going as (
  select id from groups.groups
  where id in (select group_id from wanted) and state = 'running' and paused_by is null
  order by id for share
)
update groups.step s
set state = 'running', attempts = s.attempts + 1, asks = 0, token = w.token, error = null,
  began_at = coalesce(s.began_at, :now)
from wanted w join going g on g.id = w.group_id
where s.group_id = w.group_id and s.number = w.number and s.job = w.job
  and s.state = 'pending' and not s.irreversible and s.token <= w.token
returning s.group_id, s.number, s.node, s.definition
