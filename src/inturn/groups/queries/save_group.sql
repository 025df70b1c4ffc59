-- Where a group stands. The first reason and the first irreversible step are kept; a group that
-- goes forward again has no reason not to.
update groups.groups
set state = :state,
  reason = case when :state in ('running', 'done') then null else coalesce(reason, :reason) end,
  pivot = coalesce(pivot, :pivot),
  ended_at = case when :state in ('done', 'undone') then coalesce(ended_at, :now) end
where id = :id
