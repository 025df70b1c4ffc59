-- The steps of a group that is forgotten.
delete from groups.step where group_id = :id
