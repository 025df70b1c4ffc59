-- Cancel dead letters for good; those that were dead until now.
select id
from unnest($1::uuid[]) with ordinality as d(id, n)
where inturn.dead_drop(id, $2, $3)
order by n
