-- A group by its id.
select * from groups.groups where id = :id
