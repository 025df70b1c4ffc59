-- Ids of the jobs of lanes that are running. The newest first, before $1.
-- $2 queue, $3 kind, $4 key: null for any. $5: how many at most.
-- Starts from the leases, of which there are few, and never from the log.
select id from (
    select j.id, l.queue, j.kind, l.key
    from inturn.lease e
    cross join lateral unnest(e.lanes) as under(lane)
    join inturn.lane l on l.id = under.lane and l.token = e.token
    join inturn.job j on j.lane = l.id and j.position >= l.head and j.position < l.cursor
    union all
    select j.id, l.queue, j.kind, l.key
    from inturn.run r
    join inturn.lane l on l.id = r.lane
    join inturn.job j on j.lane = r.lane and j.position >= r.first and j.position <= r.last
    where not r.settled @> j.position
) leased
where id < $1::uuid
  and ($2::text is null or queue = $2)
  and ($3::text is null or kind = $3)
  and ($4::text is null or key = $4)
order by id desc limit $5::bigint
