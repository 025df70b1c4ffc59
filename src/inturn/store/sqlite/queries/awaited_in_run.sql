-- The jobs at a lane's positions ?2 to ?3 for which another job waits.
select job.id from job
where job.lane = ?1 and job.position between ?2 and ?3
  and exists (select 1 from waits where waits.on_job = job.id)
order by job.position
