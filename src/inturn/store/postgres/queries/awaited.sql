-- Up to $3 of the jobs $1 that a blocked one waits for, and where they are at the time $2. What has
-- failed comes first: it may need a person, the others need only time.
select id, state
from (select id, inturn.state(id, $2::timestamptz) as state from unnest($1::uuid[]) as id) awaited
where state is not null
order by state not in ('dead', 'cancelled'), id limit $3::bigint
