-- When the first of these schedules is due.
select min(next_at) as next_at
from poll.schedule
where paused_by is null and name in (select value from json_each(:names))
