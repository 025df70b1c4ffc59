-- The waits of which a circle could be made: of jobs that are waited for, for jobs that wait.
-- In every circle some job waits for one with a higher id, and ids are mostly given in order: so
-- mostly no wait is like that, and nothing is looked at twice.
select w.job, w.on_job
from waits w
where exists (select 1 from waits o where o.job <= o.on_job)
  and exists (select 1 from waits o where o.job = w.on_job)
  and exists (select 1 from waits o where o.on_job = w.job)
