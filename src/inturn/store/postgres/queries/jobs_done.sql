-- Ids of jobs that are done, the newest first, before $1.
-- $2 queue, $3 kind, $4 key: null for any. $5: how many at most.
-- Reads each lane up to its cursor, so it costs as much as is finished, however much waits. What
-- lies there and is in no other place is done. ("offset 0": from the lanes to their jobs, never a
-- join over the whole log.)
select j.id
from (
    select id, queue, key, case when key is null then cursor else head end as first_unsettled
    from inturn.lane
) l
cross join lateral (
    select * from inturn.job where lane = l.id and position < l.first_unsettled offset 0
) j
where l.first_unsettled > 1
  and not exists (
      select from inturn.run r
      where r.lane = j.lane and j.position between r.first and r.last
        and not r.settled @> j.position)
  and not exists (select from inturn.dead d where d.id = j.id)
  and not exists (select from inturn.cancelled c where c.id = j.id)
  and not exists (select from inturn.parked p where p.id = j.id)
  and j.id < $1::uuid
  and ($2::text is null or l.queue = $2)
  and ($3::text is null or j.kind = $3)
  and ($4::text is null or l.key = $4)
  and ($2::text is null or $4::text is null or l.id = (
      select lane from inturn.tail where queue = $2 and key = $4))
order by j.id desc limit $5::bigint
