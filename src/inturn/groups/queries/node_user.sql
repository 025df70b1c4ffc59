-- A group that is under way and uses a node; nothing of one that is stuck or paused begins there.
select g.* from groups.groups g
where g.state in ('running', 'stopping', 'undoing') and g.paused_by is null
  and exists (select 1 from groups.step s where s.group_id = g.id and s.node = :name)
limit 1
