-- The steps of a node, of the newest groups first.
select s.*, g.name as group_name, null as address
from groups.step s join groups.groups g on g.id = s.group_id
where s.node = :node order by s.group_id desc, s.number limit coalesce(:rows_max, 0)
