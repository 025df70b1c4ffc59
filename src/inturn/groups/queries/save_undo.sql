-- What came of the undo of a step.
update groups.step
set state = :state, asks = :asks,
  answer = coalesce(:answer, answer), error = coalesce(:error, error),
  undo_ended_at = case when :has_ended then :now end
where group_id = :id and number = :number
