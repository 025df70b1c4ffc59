-- A transaction that writes has the only writer: nobody else is inside one.
select * from groups.groups where id = :id
