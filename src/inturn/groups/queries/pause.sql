-- Who paused a group; nobody, when it goes on.
update groups.groups
set paused_by = cast(:by as text),
  paused_at = case when cast(:by as text) is null then null else :now end
where id = :id
