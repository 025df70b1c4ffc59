-- How those of the jobs $1 ended that have, at the time $2; null for one that is nowhere.
select job, state from inturn.states($1::uuid[], coalesce($2::timestamptz, clock_timestamp()))
where state is null or state in ('done', 'dead', 'cancelled')
