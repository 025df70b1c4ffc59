-- Lanes whose line has holes, and jobs that stand where no line is.
-- From the first position that is not settled (an open lane's runs are checked by themselves) to
-- the last that was given, every position has its job. One pass over the log's primary key.
with kept as (
    select j.lane, max(j.position) as last,
           count(*) filter (
               where j.position >= case when l.key is null then l.cursor else l.head end) as jobs
    from inturn.job j left join inturn.lane l on l.id = j.lane group by j.lane
)
select faults.said
from (
    select l.id, t.last, case when l.key is null then l.cursor else l.head end as first,
           format('lane %s (%s of queue %L)', l.id, coalesce(quote_literal(l.key), 'open'),
                  l.queue) as name
    from inturn.lane l left join inturn.tail t on t.lane = l.id
) l
full join kept k on k.lane = l.id
cross join lateral unnest(array[
    case when l.id is null
         then format('jobs stand in lane %s, which is not there.', k.lane) end,
    case when coalesce(k.jobs, 0) <> greatest(l.last - l.first + 1, 0) and k.last <= l.last
           or k.lane is null and l.last >= l.first
         then format('%s has %s jobs from position %s to %s.',
                     l.name, coalesce(k.jobs, 0), l.first, l.last) end,
    case when k.last > l.last
         then format('%s has a job at position %s, and its tail says that %s is the last.',
                     l.name, k.last, l.last) end
]) as faults(said)
where faults.said is not null
