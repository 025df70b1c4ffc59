-- Where a group stands. The first reason and the first irreversible step are kept.
update groups.groups
set state = :state, reason = coalesce(reason, :reason), pivot = coalesce(pivot, :pivot),
  ended_at = case when :state in ('done', 'undone') then coalesce(ended_at, :now) end
where id = :id
