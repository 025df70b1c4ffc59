-- Who paused a group, and which step is tried all the same; nobody, when it goes on.
update groups.groups
set paused_by = cast(:by as text),
  paused_at = case when cast(:by as text) is null then null else :now end,
  paused_but = cast(:but as integer)
where id = :id
