-- Jobs that may have no attempt, wherever they are kept.
select 'job ' || uuid(id) || ', ' || place || ', may have ' || attempts_max
    || ' attempts, and none has fewer than 1.'
from (select id, 'in the log' as place, attempts_max from job
      union all select id, 'parked', attempts_max from parked
      union all select id, 'blocked', attempts_max from blocked
      union all select id, 'dead', attempts_max from dead
      union all select id, 'cancelled', attempts_max from cancelled) as kept
where attempts_max < 1
