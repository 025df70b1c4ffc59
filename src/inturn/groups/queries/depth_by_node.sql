-- How many steps have yet to run, or to be undone, on each node.
select node, count(*) as steps from groups.step
where state in ('pending', 'running', 'unknown', 'to_undo', 'undoing', 'undo_unknown') group by node
