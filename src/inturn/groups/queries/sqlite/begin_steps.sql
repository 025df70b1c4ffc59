-- Right before steps run: from here on they may be applied. Those that are not plainly to run stay
-- as they are, and are not returned.
update groups.step
set state = 'running', attempts = attempts + 1, asks = 0, token = r.value ->> 'token', error = null,
  began_at = coalesce(began_at, :now)
from json_each(:rows) r
where group_id = r.value ->> 'group_id' and number = r.value ->> 'number'
  and job = r.value ->> 'job' and state = 'pending' and not irreversible
  and token <= r.value ->> 'token'
  and exists (
    select 1 from groups.groups g
    where g.id = r.value ->> 'group_id' and g.state = 'running' and g.paused_by is null
  )
returning group_id, number, node, definition
