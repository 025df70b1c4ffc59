-- Give the lanes that wait a new rank, after their queue's aging_seconds has changed. They are
-- locked in the order of their ids, as producers lock them.
with waiting as materialized (
    select o.id
    from inturn.lane o
    where o.queue = $1 and o.rank_at is not null
    order by o.id
    for no key update
)
update inturn.lane l set
    rank_at = inturn.rank(
        coalesce(l.waiting_since, j.enqueued_at), l.priority, q.aging_seconds)
from waiting w
join inturn.lane o on o.id = w.id
join inturn.queue q on q.name = o.queue
left join inturn.job j on j.lane = o.id and j.position = o.cursor
where l.id = w.id
  and l.rank_at is not null -- the locked row's: it may have been leased meanwhile
  and coalesce(l.waiting_since, j.enqueued_at) is not null
