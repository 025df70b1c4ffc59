-- A step by its name.
select number from groups.step where group_id = :id and name = :name
