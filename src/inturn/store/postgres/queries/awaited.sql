-- Up to $3 of the jobs that a blocked one, $1, waits for, and where they are at the time $2. What
-- has failed comes first: it may need a person, the others need only time.
with failed as (
    select w.on_job
    from inturn.waits w
    where w.job = $1::uuid
      and (exists (select from inturn.dead d where d.id = w.on_job)
           or exists (select from inturn.cancelled c where c.id = w.on_job))
    order by w.on_job limit $3::bigint
), first as (
    select w.on_job from inturn.waits w where w.job = $1 order by w.on_job limit $3
)
select id, state
from (
    select on_job as id, inturn.state(on_job, $2::timestamptz) as state
    from (select on_job from failed union select on_job from first) named
) awaited
where state is not null
order by state not in ('dead', 'cancelled'), id limit $3
