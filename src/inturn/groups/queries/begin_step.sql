-- Right before it runs: from here on it may be applied.
update groups.step
set state = :state, attempts = :attempts, asks = 0, token = :token, error = null,
  began_at = coalesce(began_at, :now)
where group_id = :id and number = :number
