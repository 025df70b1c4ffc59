-- Jobs that wait for others: each for at least one, and none for a job that is finished or gone.
select 'job ' || uuid(id) || ' is blocked and waits for nothing.'
from blocked
where not exists (select 1 from waits where waits.job = blocked.id)
  and not exists (select 1 from reacting where reacting.job = blocked.id)
union all
select 'job ' || uuid(job) || ' waits for some to be done and for others to fail.'
from waits group by job having count(distinct on_failure) > 1
union all
select 'job ' || uuid(job) || ' reacts to job ' || uuid(on_job) || ', which is dead, and yet waits.'
from waits
where on_failure and exists (select 1 from dead where dead.id = waits.on_job)
  and not exists (select 1 from reacting where reacting.job = waits.job)
union all
select 'job ' || uuid(job) || ' waits for another and is not blocked.'
from waits where not exists (select 1 from blocked where blocked.id = waits.job)
union all
select 'job ' || uuid(waits.job) || ' waits for job ' || uuid(waits.on_job)
    || ', which is finished or gone: it would wait for ever.'
from waits
where not exists (select 1 from admitting where admitting.job = waits.on_job)
  and not exists (select 1 from reacting where reacting.job = waits.job)
  and not exists (select 1 from dead where dead.id = waits.on_job)
  and not exists (select 1 from blocked where blocked.id = waits.on_job)
  and not exists (select 1 from parked where parked.id = waits.on_job)
  and not exists (
      select 1 from job join lane on lane.id = job.lane
      where job.id = waits.on_job
        and not exists (select 1 from cancelled where cancelled.id = job.id)
        and (job.position >= iif(lane.key is null, lane.cursor, lane.head)
             or exists (select 1 from run
                        where run.lane = job.lane and job.position between run.first and run.last
                          and not exists (
                              select 1 from json_each(as_ranges(run.settled)) as settled
                              where job.position between json_extract(settled.value, '$[0]')
                                                     and json_extract(settled.value, '$[1]')))))
