-- Ids of jobs that are set aside: dead, cancelled, blocked, parked. The newest first, before $1.
-- $2 queue, $3 kind, $4 key and $6 state: null for any. $5: how many at most. $7: the time.
-- Each table is read along its primary key, so the first rows come without a sort; a table whose
-- state is not asked for is not read.
select id from (
    select id, queue, kind, key, 'dead' as state from inturn.dead
    union all
    select id, queue, kind, key, 'cancelled' from inturn.cancelled
    union all
    select id, queue, kind, key, 'blocked' from inturn.blocked
    union all
    select id, queue, kind, key,
           case when token is not null then 'running'
                when attempt > 0 then 'retrying'
                when run_at > $7::timestamptz then 'scheduled'
                else 'waiting' end
    from inturn.parked
) aside
where id < $1::uuid
  and ($2::text is null or queue = $2)
  and ($3::text is null or kind = $3)
  and ($4::text is null or key = $4)
  and ($6::text is null or state = $6)
order by id desc limit $5::bigint
