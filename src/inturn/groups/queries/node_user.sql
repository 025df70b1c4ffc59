-- A group that is under way and uses a node.
select g.* from groups.groups g
where g.state not in ('done', 'undone')
  and exists (select 1 from groups.step s where s.group_id = g.id and s.node = :name)
limit 1
