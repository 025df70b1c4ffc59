-- The schedules among these that are due.
select * from poll.schedule
where paused_by is null and next_at <= :now and name in (select value from json_each(:names))
order by next_at, name
limit 1000
