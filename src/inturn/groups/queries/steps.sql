-- All steps of a group.
select s.*, g.name as group_name, null as address
from groups.step s join groups.groups g on g.id = s.group_id
where s.group_id = :id order by s.number
