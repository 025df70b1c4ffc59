-- Delete a lane's marks up to one, unless a job at or before it is left for the next time.
delete from mark
where lane = ?1 and position <= ?2
  and not exists (select 1 from job where job.lane = ?1 and job.position <= ?2)
