-- Put dead letters back, each once; those that were dead until now. In the order of their lanes, in
-- which everyone locks tails.
select id
from (
    select d.id, d.n, t.lane
    from unnest($1::uuid[]) with ordinality as d(id, n)
    left join inturn.dead x on x.id = d.id
    left join inturn.tail t on t.queue = x.queue and t.key = x.key
    order by t.lane, d.n
    offset 0
) d
where inturn.dead_retry(id, $2)
