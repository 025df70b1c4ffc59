-- Right before an undo runs.
update groups.step
set state = :state, undo_attempts = :attempts, asks = 0, token = :token,
  undo_began_at = coalesce(undo_began_at, :now)
where group_id = :id and number = :number
