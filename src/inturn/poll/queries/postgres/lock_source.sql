-- One source, which nobody else changes until the transaction ends.
select * from poll.source
where name = :name
for update
