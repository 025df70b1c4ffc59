-- Steps of a group that is accepted.
insert into groups.step (group_id, number, name, node, definition, comes_after, attempts_max,
  undo_attempts_max, has_verify, idempotent, irreversible, job)
select r.value ->> 'group_id', r.value ->> 'number', r.value ->> 'name', r.value ->> 'node',
  r.value ->> 'definition', r.value ->> 'comes_after', r.value ->> 'attempts_max',
  r.value ->> 'undo_attempts_max', r.value ->> 'has_verify', r.value ->> 'idempotent',
  r.value ->> 'irreversible', r.value ->> 'job'
from json_each(:rows) r
