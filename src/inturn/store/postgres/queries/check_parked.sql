-- Jobs that wait by themselves: only a delayed one has a key, and it never ran; none has spent its
-- attempts.
select faults.said
from inturn.parked p
cross join lateral unnest(array[
    case when not p.delayed and p.key is not null
         then format('job %s waits to retry by itself and has the key %L: one with a key waits '
                     'in its lane.', p.id, p.key) end,
    case when p.delayed and (p.attempt > 0 or p.crashes > 0)
         then format('job %s is delayed, and yet counts %s attempts and %s crashes.',
                     p.id, p.attempt, p.crashes) end,
    case when p.attempt not between 0 and p.attempts_max - (p.token is null)::integer
         then format('job %s counts %s attempts and may have %s.',
                     p.id, p.attempt, p.attempts_max) end,
    case when p.crashes < 0 then format('job %s counts %s crashes.', p.id, p.crashes) end
]) as faults(said)
where faults.said is not null
