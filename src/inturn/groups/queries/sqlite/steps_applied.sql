-- Steps whose actions have returned.
update groups.step
set state = 'applied', is_doubtful = false, ended_at = :now
from json_each(:rows) r
where group_id = r.value ->> 'group_id' and number = r.value ->> 'number'
  and token = r.value ->> 'token' and state = 'running'
