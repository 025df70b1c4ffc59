-- Ids of jobs among the next $7 rows of the log, the newest first, before $1.
-- $2 queue, $3 kind, $4 key and $6 state (waiting or done): null for any. $5: how many at most.
-- The quick way when what is looked for is plenty: it stops as soon as the page is full. When it
-- finds too few, jobs_waiting and jobs_done look for the rest from the lanes.
select j.id
from (
    select id, lane, position, kind from inturn.job
    where id < $1::uuid order by id desc limit $7::bigint
) j
join inturn.lane l on l.id = j.lane
where ($2::text is null or l.queue = $2)
  and ($3::text is null or j.kind = $3)
  and ($4::text is null or l.key = $4)
  and case $6::text
      when 'waiting' then
          j.position >= l.cursor
          and not (l.key is not null and j.position = l.head and l.head_attempt > 0)
      when 'done' then
          j.position < case when l.key is null then l.cursor else l.head end
          and not exists (
              select from inturn.run r
              where r.lane = j.lane and j.position between r.first and r.last
                and not r.settled @> j.position)
      else true end
  and ($6::text is null or not (
      exists (select from inturn.dead d where d.id = j.id)
      or exists (select from inturn.cancelled c where c.id = j.id)
      or exists (select from inturn.parked p where p.id = j.id)))
order by j.id desc limit $5::bigint
