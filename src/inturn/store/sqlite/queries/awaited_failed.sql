-- Of what a blocked job waits for, the first few that have failed.
select on_job from waits
where job = ?1
  and (exists (select 1 from dead where dead.id = waits.on_job)
       or exists (select 1 from cancelled where cancelled.id = waits.on_job))
order by on_job limit ?2
