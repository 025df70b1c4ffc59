-- Ids of jobs that wait in line, the newest first, before $1.
-- $2 queue, $3 kind, $4 key: null for any. $5: how many at most.
-- Reads each lane from its cursor on, so it costs as much as waits, however long the history is.
-- A halted lane's head is dead, and one between attempts is retrying.
-- ("offset 0": from the lanes to their jobs, never a join over the whole log.)
select j.id
from inturn.lane l
cross join lateral (
    select * from inturn.job where lane = l.id and position >= l.cursor offset 0
) j
where l.active
  and not (l.key is not null and j.position = l.head and l.head_attempt > 0)
  and not (l.halted_at is not null and j.id = l.halted_job)
  and not exists (
      select from inturn.cancelled c where c.lane = j.lane and c.position = j.position)
  and j.id < $1::uuid
  and ($2::text is null or l.queue = $2)
  and ($3::text is null or j.kind = $3)
  and ($4::text is null or l.key = $4)
  and ($2::text is null or $4::text is null or l.id = (
      select lane from inturn.tail where queue = $2 and key = $4))
order by j.id desc limit $5::bigint
