-- Put dead letters back, each once; those that were dead until now.
select id
from unnest($1::uuid[]) with ordinality as d(id, n)
where inturn.dead_retry(id, $2)
order by n
