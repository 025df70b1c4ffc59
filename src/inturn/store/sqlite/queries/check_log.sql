-- The log from the first position of each lane that is not settled (an open lane's runs are checked
-- by themselves): every position there, once, and rounds that never fall.
select 'lane ' || found.id || ' should hold positions ' || found.first || ' to ' || tail.last
    || ' and ' || (tail.last - found.first + 1 - found.jobs) || ' of them are missing.'
from (select lane.id, iif(lane.key is null, lane.cursor, lane.head) as first,
             count(job.id) as jobs
      from lane left join job on job.lane = lane.id
          and job.position >= iif(lane.key is null, lane.cursor, lane.head)
      group by lane.id) as found
join tail on tail.lane = found.id
where found.jobs <> tail.last - found.first + 1
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
