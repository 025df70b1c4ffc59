-- Ids of done jobs: behind the cursor, in no lease, and set aside nowhere.
select job.id from job indexed by job_id join lane on lane.id = job.lane
where job.id < :before
  and (:queue is null or lane.queue = :queue) and (:kind is null or job.kind = :kind)
  and (:key is null or lane.key = :key)
  and iif(lane.key is not null, job.position < lane.head, job.position < lane.cursor)
  and not exists (
      select 1 from run
      where run.lane = job.lane and job.position between run.first and run.last
        and not exists (
            select 1 from json_each(run.settled) as settled
            where job.position between json_extract(settled.value, '$[0]')
                                   and json_extract(settled.value, '$[1]')))
  and not exists (select 1 from parked where parked.id = job.id)
  and not exists (select 1 from dead where dead.id = job.id)
  and not exists (select 1 from cancelled where cancelled.id = job.id)
order by job.id desc
limit :rows_max
