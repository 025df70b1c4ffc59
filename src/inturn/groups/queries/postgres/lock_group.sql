-- A group, until the end of the transaction: its steps begin and end one after the other.
select * from groups.groups where id = :id for update
