-- All schedules.
select * from poll.schedule
order by name
