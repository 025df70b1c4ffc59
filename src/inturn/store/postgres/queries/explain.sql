-- What there is to know about the place of a job of queue $1 besides itself and its lane: the
-- queue's gate, who paused it, the head of the keyed lane $2 (or null), the worker that holds that
-- lane and until when, and whether a worker seen since $4 takes kind $3. A worker that names no
-- kinds takes all.
select q.gate, q.paused_by, j.id as head, e.worker as head_worker, e.until as head_until,
       exists (select from inturn.worker w
               where w.seen_at >= $4::timestamptz and q.name = any(w.queues)
                 and (w.kinds = '{}' or $3::text = any(w.kinds))) as taken
from inturn.queue q
left join inturn.lane l on l.id = $2::bigint
left join inturn.job j on j.lane = l.id and j.position = l.head
left join inturn.lease e on e.token = l.token
where q.name = $1
