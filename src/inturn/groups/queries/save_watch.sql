-- The jobs that look at a group as a whole, next.
update groups.groups set finish = :finish, react = :react where id = :id
