-- A step, whole, with the address of its node as it was written.
select s.*, g.name as group_name, n.address
from groups.step s
join groups.groups g on g.id = s.group_id left join groups.node n on n.name = s.node
where s.group_id = :id and s.number = :number
