-- The nodes that a group uses.
select name, address, concurrency, local from groups.node
where name in (select node from groups.step where group_id = :id) order by name
