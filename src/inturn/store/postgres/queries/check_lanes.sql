-- Lanes whose own row does not hold together: a sentence for each fault.
-- The head of a lane that may be claimed is compared with what the lane says of it; a lane that did
-- not find its next job yet (look_at) learns it from a claim soon. An open lane's rank may be
-- older than its head's, which a claim sets right, and younger by as long as a producer's
-- transaction may have been open on it when the lane was found empty: a day is more than that. A
-- keyed lane's rank may be by the aging_seconds that the queue had when the lane was woken.
select faults.said
from inturn.lane l
left join inturn.tail t on t.lane = l.id
left join inturn.job j on j.lane = l.id and j.position = l.cursor
left join inturn.job h on h.lane = l.id and h.position = l.head
left join lateral (
    select inturn.rank(j.enqueued_at, l.priority, q.aging_seconds) as rank_at
    from inturn.queue q where q.name = l.queue
) owed on true
cross join lateral (
    select format('lane %s (%s of queue %L)', l.id, coalesce(quote_literal(l.key), 'open'),
                  l.queue) as name
) called
cross join lateral unnest(array[
    case when t.lane is null
         then format('%s has no tail.', name) end,
    case when (t.queue, t.key) is distinct from (l.queue, l.key) and t.lane is not null
         then format('%s has the tail of lane %L of queue %L.', name, t.key, t.queue) end,
    case when not l.active and t.last >= l.cursor
         then format('%s is not active although positions %s to %s wait in it: they are '
                     'stranded.', name, l.cursor, t.last) end,
    case when l.cursor > t.last + 1
         then format('%s has its cursor at %s, beyond its last position %s.',
                     name, l.cursor, t.last) end,
    case when l.key is not null and l.token is null and l.head <> l.cursor
         then format('%s holds positions %s to %s back without a lease.',
                     name, l.head, l.cursor - 1) end,
    case when l.token is not null and l.head >= l.cursor
         then format('%s is under lease %s with no position leased.', name, l.token) end,
    case when l.token is not null and not l.active
         then format('%s is under lease %s and not active.', name, l.token) end,
    case when l.token is not null and (l.ready_at is not null or l.look_at is not null)
         then format('%s is under lease %s and yet waits for a time to come.',
                     name, l.token) end,
    case when l.active and l.token is null and l.ready_at is null and l.look_at is null
              and l.halted_at is null and l.paused_at is null and l.rank_at is null
         then format('%s may be claimed and has no rank: no claim finds it.', name) end,
    case when l.rank_at is not null and (
                  not l.active or l.token is not null or l.ready_at is not null
                  or l.look_at is not null or l.halted_at is not null
                  or l.paused_at is not null)
         then format('%s has a rank and must not be claimed.', name) end,
    case when case
             when l.key is null then l.rank_at > owed.rank_at + interval '1 day'
             when l.priority = 0 then l.rank_at <> owed.rank_at
             else (l.rank_at < j.enqueued_at) <> (l.priority > 0) end
         then format('%s has another rank than its head gives it.', name) end,
    case when l.rank_at is not null
              and l.suspect <> (l.key is not null and l.cursor <= l.suspect_last)
         then format('%s says that its head is %s suspect, and positions up to %s are.',
                     name, case when l.suspect then 'a' else 'no' end, l.suspect_last) end,
    case when l.halted_at is not null and l.halted_job is distinct from j.id
         then format('%s is halted on job %s, which is not its head.',
                     name, l.halted_job) end,
    case when l.halted_at is not null
              and not exists (select from inturn.dead d where d.id = l.halted_job)
         then format('%s is halted on job %s, which is not among the dead letters.',
                     name, l.halted_job) end,
    case when l.key is not null and l.token is null and l.halted_at is null and l.active
              and l.look_at is null and j.id is not null
              and (l.kind, l.priority, l.round, l.waiting_since)
                  is distinct from (j.kind, j.priority, j.round, j.enqueued_at)
         then format('%s does not know its head, job %s, as it is.', name, j.id) end,
    case when l.suspect_last > case when l.key is null then 0 else t.last end
         then format('%s has suspects up to position %s, and its last is %s.',
                     name, l.suspect_last, t.last) end,
    case when l.key is not null and l.halted_at is null
              and l.head_attempt > h.attempts_max - (l.token is null)::integer
              or l.head_attempt < 0 or l.head_crashes < 0
         then format('%s counts %s attempts and %s crashes of its head, which may have %s.',
                     name, l.head_attempt, l.head_crashes, h.attempts_max) end,
    case when exists (
                  select from inturn.cancelled c
                  where c.lane = l.id and c.position > l.cancelled_last
                    and c.position >= l.cursor)
         then format('%s has cancelled positions beyond %s, and does not know it: they would '
                     'run.', name, l.cancelled_last) end,
    case when l.cancelled_last >= l.cursor and not exists (
                  select from inturn.cancelled c
                  where c.lane = l.id and c.position = l.cancelled_last)
         then format('%s says that position %s is the last that is cancelled, and it is not: '
                     'it would run.', name, l.cancelled_last) end
]) as faults(said)
where faults.said is not null
