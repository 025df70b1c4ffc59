-- Groups, the newest first, each with how many of its steps have ended, and are not undone.
select g.*, (
  select count(*) from groups.step s where s.group_id = g.id and s.state in
  ('applied', 'not_applied', 'possibly_applied', 'cancelled', 'skipped', 'undone', 'not_undone',
  'undo_skipped')
) as ended, (
  select count(*) from groups.step s
  where s.group_id = g.id and s.state in ('not_undone', 'undo_skipped')
) as not_undone
from groups.groups g
where (:state = '' or g.state = :state) and (:before = '' or g.id < :before)
order by g.id desc limit coalesce(:rows_max, 0)
