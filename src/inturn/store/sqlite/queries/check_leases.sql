-- Leases against what is under them.
with held as (
    select lane.token, lane.cursor - lane.head as jobs, lane.id as lane, lane.queue
    from lane where lane.token is not null
    union all
    select run.token, run.last - run.first + 1 - (
        select coalesce(sum(json_extract(value, '$[1]') - json_extract(value, '$[0]') + 1), 0)
        from json_each(as_ranges(run.settled))), null, lane.queue
    from run left join lane on lane.id = run.lane
    union all
    select token, 1, null, queue from parked where token is not null
)
select 'lease ' || lease.token || ' says that ' || lease.unsettled || ' jobs are unsettled, and '
    || coalesce(sum(held.jobs), 0) || ' are.'
from lease left join held on held.token = lease.token
group by lease.token having lease.unsettled <> coalesce(sum(held.jobs), 0)
union all
select 'there is no lease ' || held.token || ', and yet something is held under it.'
from held where not exists (select 1 from lease where lease.token = held.token)
union all
select 'lease ' || lease.token || ' does not name lane ' || held.lane || ', which is under it.'
from held join lease on lease.token = held.token
where held.lane is not null
  and not exists (select 1 from json_each(as_lanes(lease.lanes)) where value = held.lane)
union all
select 'lease ' || lease.token || ' is of queue ' || quote(lease.queue)
    || ', and what is under it of queue ' || quote(held.queue) || '.'
from held join lease on lease.token = held.token where held.queue <> lease.queue
union all
select 'lease ' || token || ' is for one job alone and holds ' || unsettled || '.'
from lease where alone and unsettled <> 1
union all
select 'lease ' || token || ' names its lanes, and that is no list of them: ' || quote(lanes) || '.'
from lease where as_lanes(lanes) is null
