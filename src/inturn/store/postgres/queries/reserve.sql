-- Take positions in the tails of lanes, one group of jobs a lane, bounds checked.
select lanes, befores, floors, at from inturn.reserve($1, $2, $3, $4, $5, $6, $7, null, $8, true)
