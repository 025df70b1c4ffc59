-- Whether a lane of these queues has a job that may be claimed.
select exists (
    select from inturn.lane l
    join inturn.queue q on q.name = l.queue and q.paused_at is null
    join inturn.tail t on t.lane = l.id and t.last >= l.cursor
    where l.queue = any($1) and l.rank_at is not null and l.round <= q.gate
)
