-- Dead letters, latest death first, before the one that died at $1 with the id $2.
-- $3 queue, $4 kind, $5 key: null for any. $6: how many at most.
select id, queue, key, kind, payload, priority, round, attempts_max, timeout_seconds, enqueued_at,
       attempts, errors, reason, died_at
from inturn.dead
where ($1::timestamptz is null or (died_at, id) < ($1, $2::uuid))
  and ($3::text is null or queue = $3)
  and ($4::text is null or kind = $4)
  and ($5::text is null or key = $5)
order by died_at desc, id desc limit $6::bigint
