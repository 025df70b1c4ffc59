-- What came of a step on its way forward. An error and an answer stay until there is another.
update groups.step
set state = :state, asks = :asks, is_doubtful = :is_doubtful,
  answer = coalesce(:answer, answer), error = coalesce(:error, error),
  ended_at = case when :has_ended then :now end
where group_id = :id and number = :number
