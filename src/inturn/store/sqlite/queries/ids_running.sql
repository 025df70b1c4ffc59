-- Ids of jobs in leased runs of lanes, found from the leases: as many as run, whatever the log.
select id from (
    select job.id, lane.queue, lane.key, job.kind
    from lease cross join json_each(lease.lanes) as held
    cross join lane on lane.id = held.value and lane.token = lease.token
    cross join job on job.lane = lane.id
        and job.position >= lane.head and job.position < lane.cursor
    union all
    select job.id, lane.queue, lane.key, job.kind
    from run cross join lane on lane.id = run.lane
    cross join job on job.lane = run.lane and job.position between run.first and run.last
    where not exists (
        select 1 from json_each(run.settled) as settled
        where job.position between json_extract(settled.value, '$[0]')
                               and json_extract(settled.value, '$[1]'))
)
where id < :before
  and (:queue is null or queue = :queue) and (:kind is null or kind = :kind)
  and (:key is null or key = :key)
order by id desc
limit :rows_max
