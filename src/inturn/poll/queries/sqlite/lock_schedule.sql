-- There is one writer: nobody else changes what a transaction has read.
select * from poll.schedule
where name = :name
