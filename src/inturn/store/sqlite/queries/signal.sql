-- What someone who waits for a queue has to know: how often something became claimable, when the
-- next sleeper is due, or the rate lets something start again, and whether there is work now. Each
-- is one look into an index.
select depth.woken,
       iif(queue.paused_at is not null, null, (
           select min(due_at) from (
               select min(run_at) as due_at from parked
               where queue = :queue and token is null and rank_at is null
               union all
               select min(ready_at) from lane where queue = :queue and ready_at is not null
               union all
               select min(started_at) + cast(1000000 * (queue.rate_seconds
                   + min(0.25, 0.04 * queue.rate_seconds)) as integer) from start
               where queue = :queue and queue.starts >= queue.rate))),
       queue.paused_at is null and (
           exists (select 1 from lane where queue = :queue and rank_at is not null
                   and suspect_last < head and round <= queue.gate)
           or exists (select 1 from lane where queue = :queue and rank_at is not null
                      and suspect_last >= head and round <= queue.gate)
           or exists (select 1 from parked where queue = :queue and rank_at is not null
                      and not suspect)
           or exists (select 1 from parked where queue = :queue and rank_at is not null
                      and suspect))
from queue join depth on depth.queue = queue.name
where queue.name = :queue
