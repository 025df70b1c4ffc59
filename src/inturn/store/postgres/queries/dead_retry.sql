-- Put dead letters back, each once; those that were dead until now.
select id from inturn.by_lane($1) as d(id) where inturn.dead_retry(id, $2)
