-- Ids of the heads of keyed lanes that wait for their next attempt. The newest first, before $1.
-- $2 queue, $3 kind, $4 key: null for any. $5: how many at most.
-- Reads lanes and one job each. While a lane is leased its attempt is under way, not awaited.
select j.id
from inturn.lane l
join inturn.job j on j.lane = l.id and j.position = l.head
where l.key is not null and l.token is null and l.halted_at is null and l.active
  and l.head_attempt > 0
  and j.id < $1::uuid
  and ($2::text is null or l.queue = $2)
  and ($3::text is null or j.kind = $3)
  and ($4::text is null or l.key = $4)
  and ($2::text is null or $4::text is null or l.id = (
      select lane from inturn.tail where queue = $2 and key = $4))
order by j.id desc limit $5::bigint
