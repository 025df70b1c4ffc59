-- All nodes.
select name, address, concurrency, local from groups.node order by name
