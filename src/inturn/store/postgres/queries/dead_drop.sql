-- Cancel dead letters for good; those that were dead until now.
select id from inturn.by_lane($1) as d(id) where inturn.dead_drop(id, $2, $3)
