-- Ids of jobs in the log, whatever became of them.
select job.id from job join lane on lane.id = job.lane
where job.id < :before
  and (:queue is null or lane.queue = :queue) and (:kind is null or job.kind = :kind)
  and (:key is null or lane.key = :key)
order by job.id desc
limit :rows_max
