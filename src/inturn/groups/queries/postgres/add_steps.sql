-- Steps of a group that is accepted.
insert into groups.step (group_id, number, name, node, definition, comes_after, attempts_max,
  undo_attempts_max, has_verify, idempotent, irreversible, job)
select r.group_id, r.number, r.name, r.node, r.definition, r.comes_after, r.attempts_max,
  r.undo_attempts_max, r.has_verify, r.idempotent, r.irreversible, r.job
from jsonb_to_recordset(:rows) as r(group_id text, number integer, name text, node text,
  definition text, comes_after text, attempts_max integer, undo_attempts_max integer,
  has_verify boolean, idempotent boolean, irreversible boolean, job text)
