-- Lanes of queue $1 in the order of their ids, after $3; with $2, the one of that key.
-- $4: how many at most. The first state in the list that holds is the lane's: what a person has to
-- do comes before what a worker does, and that before what time does.
select l.id, l.key, l.kind, l.priority, l.round, l.head, l.cursor, t.last, l.ready_at, l.halted_job,
       l.paused_by, w.depth,
       case when l.halted_at is not null then 'halted'
            when l.paused_at is not null then 'paused'
            when l.token is not null then 'leased'
            when l.ready_at is not null then 'sleeping'
            when w.depth <= 0 then 'idle'
            when l.round > q.gate then 'gated'
            else 'ready' end as state
from inturn.lane l
join inturn.tail t on t.lane = l.id
join inturn.queue q on q.name = l.queue
cross join lateral (
    select t.last - l.cursor + 1 - count(*) as depth from inturn.cancelled c
    where c.lane = l.id and c.position >= l.cursor
) w
where l.queue = $1 and l.id > $3::bigint
  and ($2::text is null or l.id = (select lane from inturn.tail where queue = $1 and key = $2))
order by l.id limit $4::bigint
