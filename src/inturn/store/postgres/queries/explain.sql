-- What there is to know about the place of a job of queue $1 besides itself and its lane: the
-- queue's gate, who paused it, the head of the keyed lane $2 (or null), the worker that holds that
-- lane and until when, whether a worker seen since $4 takes kind $3, and what counts for the
-- queue's limits at the time $5. A worker that names no kinds takes all.
select q.gate, q.paused_by, q.on_dead, q.depth_max, q.lane_depth_max, q.keep_done_seconds,
       q.aging_seconds, q.replay, q.suspects, q.running_max, q.rate, q.rate_seconds, q.local,
       coalesce((select sum(unsettled) from inturn.lease
                 where queue = q.name and limited), 0)::bigint as running,
       coalesce((select sum(jobs) from inturn.start
                 where queue = q.name
                   and started_at > $5::timestamptz - inturn.rate_window(q.rate_seconds)
                ), 0)::bigint as starts,
       j.id as head, e.worker as head_worker, e.until as head_until,
       exists (select from inturn.worker w
               where w.seen_at >= $4::timestamptz and q.name = any(w.queues)
                 and (w.kinds = '{}' or $3::text = any(w.kinds))) as taken
from inturn.queue q
left join inturn.lane l on l.id = $2::bigint
left join inturn.job j on j.lane = l.id and j.position = l.head
left join inturn.lease e on e.token = l.token
where q.name = $1
