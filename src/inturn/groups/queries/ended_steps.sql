-- How many steps of a group have ended, forward or back, and how many could not be undone or were
-- left as they are.
select
  count(case when state in ('applied', 'not_applied', 'possibly_applied', 'cancelled', 'skipped',
    'undone', 'not_undone', 'undo_skipped') then 1 end) as ended,
  count(case when state in ('not_undone', 'undo_skipped') then 1 end) as not_undone
from groups.step where group_id = :id
