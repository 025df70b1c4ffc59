-- The schedules among these that are due, but for those that another worker is firing.
select * from poll.schedule
where paused_by is null and next_at <= :now
  and name in (select jsonb_array_elements_text(:names::text::jsonb))
order by next_at, name
limit 1000
for update skip locked
