-- Dead letters of every queue, latest death first, from a place on; dead_age has this order.
select id, queue, key, kind, payload, priority, round, attempts_max, timeout_seconds, enqueued_at,
       attempts, errors, reason, died_at
from dead
where (died_at, id) < (:died_at, :id) and (:queue is null or queue = :queue)
  and (:kind is null or kind = :kind) and (:key is null or key = :key)
order by died_at desc, id desc
limit :rows_max
