-- Ids of jobs that wait in lanes, found by walking all ids: for when many wait.
select job.id from job indexed by job_id join lane on lane.id = job.lane
where job.id < :before and job.position >= lane.cursor
  and (:queue is null or lane.queue = :queue) and (:kind is null or job.kind = :kind)
  and (:key is null or lane.key = :key)
  and not (job.position = lane.cursor
           and (lane.halted_at is not null or (lane.token is null and lane.head_attempt > 0)))
  and not exists (select 1 from cancelled
                  where cancelled.lane = job.lane and cancelled.position = job.position)
order by job.id desc
limit :rows_max
