-- There is one writer: nobody else changes what a transaction has read.
select * from poll.source
where name = :name
