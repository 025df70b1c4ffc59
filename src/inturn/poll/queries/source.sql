-- One source.
select * from poll.source
where name = :name
