-- Jobs that wait for others in a way that may never end.
-- What is waited for is unfinished: dead, blocked, parked, or in the log and not behind its lane's
-- cursor. Only a fresh wait, or one that a settle has left for later, may be for what is finished.
with awaited as (
    select w.job, w.on_job, l.id as lane,
           w.fresh, w.on_failure,
           exists (select from inturn.dead d where d.id = w.on_job) as dead,
           exists (select from inturn.dead d where d.id = w.on_job)
           or exists (select from inturn.blocked d where d.id = w.on_job)
           or exists (select from inturn.parked d where d.id = w.on_job) as aside,
           exists (select from inturn.cancelled c where c.id = w.on_job) as cancelled,
           j.position >= case when l.key is null then l.cursor else l.head end
           or exists (select from inturn.run r
                      where r.lane = j.lane and j.position between r.first and r.last
                        and not r.settled @> j.position) as standing
    from inturn.waits w
    left join inturn.job j on j.id = w.on_job
    left join inturn.lane l on l.id = j.lane
    where not exists (select from inturn.admitting a where a.job = w.on_job)
)
select format('job %s waits for job %s and is not blocked.', w.job, w.on_job) as said
from inturn.waits w left join inturn.blocked b on b.id = w.job where b.id is null
union all
select format('job %s is blocked and waits for nothing.', b.id)
from inturn.blocked b where not exists (select from inturn.waits w where w.job = b.id)
  and not exists (select from inturn.reacting r where r.job = b.id)
union all
select format('job %s waits for job %s, which is not there.', job, on_job)
from awaited where not aside and not cancelled and lane is null
union all
select format('job %s waits for job %s, which is cancelled.', job, on_job)
from awaited where cancelled and not fresh
  and not exists (select from inturn.reacting r where r.job = awaited.job)
union all
select format('job %s reacts to job %s, which is dead, and yet waits.', job, on_job)
from awaited where dead and on_failure and not fresh
  and not exists (select from inturn.reacting r where r.job = awaited.job)
union all
select format('job %s waits for some to be done and for others to fail.', w.job)
from inturn.waits w
group by w.job having count(distinct w.on_failure) > 1
union all
select format('job %s waits for job %s, which is done.', job, on_job)
from awaited where not aside and not cancelled and not standing and not fresh
