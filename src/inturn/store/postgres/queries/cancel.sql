-- Cancel a job that is not running; the state it has now.
select inturn.cancel($1, $2, $3)
