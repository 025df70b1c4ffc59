-- Jobs that may have no attempt, wherever they are kept.
select format('job %s, %s, may have %s attempts, and none has fewer than 1.',
              id, place, attempts_max)
from (
    select id, 'in the log' as place, attempts_max from inturn.job
    union all select id, 'parked', attempts_max from inturn.parked
    union all select id, 'blocked', attempts_max from inturn.blocked
    union all select id, 'dead', attempts_max from inturn.dead
    union all select id, 'cancelled', attempts_max from inturn.cancelled
) kept
where attempts_max < 1
