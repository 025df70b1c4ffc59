-- Delete cancelled jobs that are old enough. One that stands in line still is needed there until
-- its lane's cursor has passed it and its row in the log is gone.
delete from cancelled
where queue = ?1 and cancelled_at <= ?2
  and not exists (select 1 from job where job.id = cancelled.id)
