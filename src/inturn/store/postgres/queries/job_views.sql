-- Everything a person asks about the jobs $1, at the time $2.
-- Right because each job is taken from the first place that has it: a job that was set aside (dead,
-- cancelled, blocked, parked) keeps its row in the log, so the log is looked at last. There, its
-- lane's head, cursor and runs say its state. In a keyed lane what is leased is still ahead of what
-- waits; an open lane's leases are in nobody's way.
with logged as (
    select j.*, l.queue, l.key, l.head, l.cursor, l.ready_at, l.suspect_last,
           l.head_attempt, l.head_errors,
           case when l.key is null then l.cursor else l.head end as first,
           case when j.position >= l.cursor
                     then case when l.key is not null and j.position = l.head
                                    and l.head_attempt > 0
                               then 'retrying' else 'waiting' end
                when l.key is not null
                     then case when j.position >= l.head then 'running' else 'done' end
                when r.token is not null then 'running'
                else 'done' end as state,
           coalesce(r.token, l.token) as token
    from inturn.job j
    join inturn.lane l on l.id = j.lane
    left join inturn.run r on r.lane = j.lane and j.position between r.first and r.last
                          and not r.settled @> j.position
    where j.id = any($1::uuid[])
), found as (
    select 1 as place, id, queue, key, kind, payload, priority, round, attempts_max,
           timeout_seconds, enqueued_at, 'dead' as state, null::bigint as lane,
           null::bigint as position, null::bigint as ahead, null::timestamptz as run_at,
           attempts as attempt, errors, null::bigint as token, null::uuid[] as waits_for,
           0 as waits_for_count, false as is_reaction, false as suspect,
           died_at, null as cancelled_by, reason
    from inturn.dead where id = any($1::uuid[])
    union all
    select 2, id, queue, key, kind, payload, priority, round, attempts_max,
           timeout_seconds, enqueued_at, 'cancelled', lane, position, null, null,
           0, null, null, null, 0, false, false, null, cancelled_by, reason
    from inturn.cancelled where id = any($1::uuid[])
    union all
    select 3, id, queue, key, kind, payload, priority, round, attempts_max,
           timeout_seconds, enqueued_at, 'blocked', null, null, null, null,
           0, null, null,
           array(select w.on_job from inturn.waits w where w.job = b.id order by 1 limit 100),
           (select count(*) from inturn.waits w where w.job = b.id),
           exists (select from inturn.waits w where w.job = b.id and w.on_failure),
           false, null, null, null
    from inturn.blocked b where id = any($1::uuid[])
    union all
    select 4, id, queue, key, kind, payload, priority, round, attempts_max,
           timeout_seconds, enqueued_at,
           case when token is not null then 'running'
                when attempt > 0 then 'retrying'
                when run_at > $2::timestamptz then 'scheduled'
                else 'waiting' end,
           null, null, null,
           case when token is null and (attempt > 0 or run_at > $2) then run_at end,
           attempt, errors, token, null, 0, false, suspect, null, null, null
    from inturn.parked where id = any($1::uuid[])
    union all
    select 5, id, queue, key, kind, payload, priority, round, attempts_max,
           timeout_seconds, enqueued_at, state, lane, position,
           case when position >= cursor then position - first - (
               select count(*) from inturn.cancelled c
               where c.lane = logged.lane and c.position >= first
                 and c.position < logged.position) end,
           case when key is not null and position = head then ready_at end,
           case when state in ('running', 'retrying')
                then case when key is not null and position = head then head_attempt else 1 end
                else 0 end,
           case when key is not null and position = head then head_errors end,
           case when state = 'running' then token end,
           null, 0, false, key is not null and position between head and suspect_last,
           null, null, null
    from logged
)
select distinct on (f.id) f.*, e.worker, e.until as leased_until, p.fraction, p.note, p.said_at
from found f
left join inturn.lease e on e.token = f.token
left join inturn.progress p on p.job = f.id and p.token = f.token
order by f.id, f.place
