-- Give the lanes that wait the rank that their queue's aging_seconds gives them now. A lane that
-- somebody holds is passed over: who waits for nobody is part of no deadlock.
with waiting as materialized (
    select o.id
    from inturn.lane o
    join inturn.queue q on q.name = o.queue
    where o.queue = $1 and o.rank_at is not null
      and (o.key is null
           or o.rank_at <> inturn.rank(o.waiting_since, o.priority, q.aging_seconds))
    for no key update of o skip locked
)
update inturn.lane l set
    rank_at = coalesce(
        inturn.rank(
            coalesce(l.waiting_since, (
                select j.enqueued_at from inturn.job j
                where j.lane = l.id and j.position = l.cursor)),
            l.priority, q.aging_seconds),
        l.rank_at) -- an open lane with nothing in it
from waiting w, inturn.queue q
where l.id = w.id and q.name = l.queue
  and l.rank_at is not null -- the locked row's: it may have been leased meanwhile
