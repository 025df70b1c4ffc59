-- A group, whole with its steps or not at all.
insert into groups.groups (id, name, state, steps, finish, react, created_at)
values (:id, :name, 'running', :steps, :finish, :react, :now)
