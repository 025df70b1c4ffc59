-- Starts of a queue with a rate, as its row counts them and as they are.
select format('queue %L counts %s starts, and there are %s.', l.queue, l.starts, f.found)
from inturn.limited l
cross join lateral (
    select coalesce(sum(s.jobs), 0) as found from inturn.start s where s.queue = l.queue
) f
where l.starts <> f.found
order by l.queue
