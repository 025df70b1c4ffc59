-- Ids of keyed lanes' heads between attempts.
select job.id from lane join job on job.lane = lane.id and job.position = lane.cursor
where lane.active and lane.key is not null and lane.token is null and lane.halted_at is null
  and lane.head_attempt > 0 and job.id < :before
  and (:queue is null or lane.queue = :queue) and (:kind is null or job.kind = :kind)
  and (:key is null or lane.key = :key)
order by job.id desc
limit :rows_max
