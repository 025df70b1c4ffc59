-- Whether a keyed lane of a queue has another rank than the queue's aging_seconds gives it now.
select exists (
    select from inturn.lane l
    join inturn.queue q on q.name = l.queue
    where l.queue = $1 and l.rank_at is not null and l.key is not null
      and l.rank_at <> inturn.rank(l.waiting_since, l.priority, q.aging_seconds))
