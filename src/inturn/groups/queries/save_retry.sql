-- What a person decided about a step.
update groups.step
set state = :state, attempts = :attempts, undo_attempts = :undo_attempts, asks = :asks, why = :why
where group_id = :id and number = :number
