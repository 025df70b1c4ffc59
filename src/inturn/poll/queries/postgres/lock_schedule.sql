-- One schedule, which nobody else changes until the transaction ends.
select * from poll.schedule
where name = :name
for update
