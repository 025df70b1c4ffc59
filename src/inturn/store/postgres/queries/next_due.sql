-- When the next delayed job or retry of these queues is due, and what time it is there.
select min(due) as due, clock_timestamp() as now from (
    select min(run_at) as due from inturn.parked where queue = any($1) and delayed
    union all
    select min(run_at) from inturn.parked where queue = any($1) and token is null and not suspect
        and not delayed
    union all
    select min(run_at) from inturn.parked where queue = any($1) and token is null and suspect
    union all
    select min(ready_at) from inturn.lane where queue = any($1) and ready_at is not null
) d
