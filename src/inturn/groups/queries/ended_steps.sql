-- How many steps of a group have ended, forward or back.
select count(*) as ended from groups.step where group_id = :id and state in
  ('applied', 'not_applied', 'possibly_applied', 'cancelled', 'skipped', 'undone', 'not_undone',
  'undo_skipped')
