-- Runs of open lanes: behind the cursor, apart from one another, with something to settle.
select 'a run of lease ' || run.token || ' is in lane ' || run.lane || ', which is not open.'
from run left join lane on lane.id = run.lane where lane.id is null or lane.key is not null
union all
select 'positions ' || run.first || ' to ' || run.last || ' of lane ' || run.lane
    || ' are leased and not behind its cursor.'
from run join lane on lane.id = run.lane where run.last >= lane.cursor
union all
select 'leases ' || a.token || ' and ' || b.token || ' both hold positions of lane ' || a.lane
    || '.'
from run a join run b on b.lane = a.lane and b.token > a.token
    and b.first <= a.last and a.first <= b.last
union all
-- What is settled may be gone: a dead letter that was put back has left its old place.
select 'of positions ' || run.first || ' to ' || run.last || ' of lane ' || run.lane
    || ', which are leased, a job is gone.'
from run
where (select count(*) from job where job.lane = run.lane
       and job.position between run.first and run.last
       and not exists (select 1 from json_each(as_ranges(run.settled)) as done
                       where job.position between json_extract(done.value, '$[0]')
                           and json_extract(done.value, '$[1]')))
    < run.last - run.first + 1 - (
        select coalesce(sum(
            json_extract(done.value, '$[1]') - json_extract(done.value, '$[0]') + 1), 0)
        from json_each(as_ranges(run.settled)) as done)
union all
select 'positions ' || first || ' to ' || last || ' of lane ' || lane
    || ' are leased, and what is settled of them is not ranges in order: ' || quote(settled) || '.'
from run where as_ranges(settled) is null
union all
select 'positions ' || first || ' to ' || last || ' of lane ' || lane
    || ' are leased, and some are settled that are not among them: ' || settled || '.'
from run
where exists (select 1 from json_each(as_ranges(run.settled)) as done
              where json_extract(done.value, '$[0]') < run.first
                 or json_extract(done.value, '$[1]') > run.last)
union all
select 'positions ' || first || ' to ' || last || ' of lane ' || lane
    || ' are settled and still leased.'
from run where as_ranges(settled) = json_array(json_array(first, last))
