-- Steps that have yet to run, or to be undone.
select s.*, g.name as group_name, null as address
from groups.step s join groups.groups g on g.id = s.group_id
where s.state in ('pending', 'running', 'unknown', 'to_undo', 'undoing', 'undo_unknown')
  and (:node = '' or s.node = :node)
order by s.group_id, s.number limit coalesce(:rows_max, 0)
