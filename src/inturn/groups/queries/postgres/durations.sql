-- Of the newest groups: how long steps took, and how many failed.
select avg(case when state not in ('not_applied', 'possibly_applied')
    then extract(epoch from ended_at - began_at) end)::float8 as mean_seconds,
  count(*) as ended,
  count(case when state in ('not_applied', 'possibly_applied') or is_doubtful then 1 end) as failed
from groups.step
where ended_at is not null and began_at is not null
  and group_id in (
    select id from groups.groups order by created_at desc limit coalesce(:groups_max, 0)
  )
