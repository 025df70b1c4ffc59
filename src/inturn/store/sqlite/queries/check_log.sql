-- The log from each cursor on: every position there, once, and rounds that never fall.
select 'lane ' || lane.id || ' should hold positions ' || lane.cursor || ' to ' || tail.last
    || ' and ' || (tail.last - lane.cursor + 1 - found.jobs) || ' of them are missing.'
from lane join tail on tail.lane = lane.id
join (select lane.id, count(job.id) as jobs, max(job.position) as last
      from lane left join job on job.lane = lane.id and job.position >= lane.cursor
      group by lane.id) as found on found.id = lane.id
where found.jobs <> tail.last - lane.cursor + 1
union all
select 'lane ' || job.lane || ' has a job at position ' || job.position || ', beyond its last.'
from job join tail on tail.lane = job.lane where job.position > tail.last
union all
select 'position ' || job.position || ' of lane ' || job.lane || ' belongs to no lane.'
from job where not exists (select 1 from lane where lane.id = job.lane)
union all
select 'in lane ' || lane || ' the round falls at position ' || position || '.' from (
    select job.lane, job.position, job.round,
           lag(job.round) over (partition by job.lane order by job.position) as before
    from job join lane on lane.id = job.lane
    where lane.key is not null and job.position >= lane.head)
where round < before
union all
select 'lane ' || tail.lane || ' has its tail at round ' || tail.round
    || ', and its last job is of round ' || job.round || '.'
from tail join job on job.lane = tail.lane and job.position = tail.last
where tail.round <> job.round
