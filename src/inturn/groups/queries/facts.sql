-- What decisions about a whole group need of its steps.
select number, name, node, state, attempts, attempts_max, undo_attempts, undo_attempts_max, asks,
  is_doubtful, has_verify, idempotent, irreversible, comes_after, definition, job,
  undo_job
from groups.step where group_id = :id order by number
