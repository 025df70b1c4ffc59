-- A group that is forgotten.
delete from groups.groups where id = :id
