-- Leases that do not agree with what is held under them.
-- A keyed lane, a run and a parked job each name a token; together they are what is unsettled.
with held as (
    select l.token, l.queue, l.cursor - l.head as jobs, l.id as keyed,
           format('lane %s (%L of queue %L)', l.id, l.key, l.queue) as name
    from inturn.lane l where l.token is not null
    union all
    select r.token, l.queue, r.last - r.first + 1
               - coalesce((select sum(upper(s) - lower(s)) from unnest(r.settled) s), 0)::bigint,
           null, format('the run from position %s to %s of lane %s', r.first, r.last, r.lane)
    from inturn.run r left join inturn.lane l on l.id = r.lane
    union all
    select p.token, p.queue, 1, null, format('job %s, parked,', p.id)
    from inturn.parked p where p.token is not null
), sums as (
    select token, sum(jobs)::bigint as jobs from held group by token
)
select format('%s is under lease %s, which is not there.', h.name, h.token) as said
from held h left join inturn.lease e on e.token = h.token where e.token is null
union all
select format('%s is under lease %s, which does not list it.', h.name, h.token)
from held h join inturn.lease e on e.token = h.token
where h.keyed is not null and h.keyed <> all(e.lanes)
union all
select format('%s is under lease %s, which is of queue %L.', h.name, h.token, e.queue)
from held h join inturn.lease e on e.token = h.token where h.queue <> e.queue
union all
select format('lease %s of worker %s says that %s jobs are unsettled, and %s are.',
                 e.token, e.worker, e.unsettled, coalesce(s.jobs, 0))
from inturn.lease e left join sums s on s.token = e.token
where e.unsettled <> coalesce(s.jobs, 0)
union all
select format('lease %s of worker %s is for one job alone and holds %s.',
                 e.token, e.worker, e.unsettled)
from inturn.lease e where e.alone and e.unsettled <> 1
union all
select format('lease %s is beyond the last token that was given, %s: a token would be '
                 'given twice.', e.token, t.last_value)
from inturn.lease e, inturn.token t where e.token > t.last_value
