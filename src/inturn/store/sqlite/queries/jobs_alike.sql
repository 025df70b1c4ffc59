-- The jobs of one run in one row, for a run whose jobs differ in nothing but payload and age: what
-- they share is told once. alike says whether they do. None at all if a position is cancelled.
-- In the order of positions because the primary key is read along, to which tests/plans sees: a
-- subquery that says so costs half as much again.
select count(*) as jobs,
       min(kind) = max(kind) and min(priority) = max(priority) and min(round) = max(round)
       and min(attempts_max) = max(attempts_max)
       and count(timeout_seconds) in (0, count(*))
       and min(timeout_seconds) is max(timeout_seconds) as alike,
       group_concat(hex(id), '","') as ids, group_concat(payload, char(30)) as payloads,
       group_concat(enqueued_at) as sinces, min(enqueued_at) = max(enqueued_at) as at_once,
       min(kind), min(priority), min(round), min(attempts_max), min(timeout_seconds)
from job
where lane = ?1 and position between ?2 and ?3
  and not exists (select 1 from cancelled where lane = ?1 and position between ?2 and ?3)
