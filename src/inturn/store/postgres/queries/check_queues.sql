-- Things of a queue that is not there, where no status counts them.
select format('%s of queue %L, which is not there.', what, name)
from (
    select 'a lane is' as what, queue as name from inturn.lane
    union select 'a parked job is', queue from inturn.parked
    union select 'a blocked job is', queue from inturn.blocked
    union select 'a dead letter is', queue from inturn.dead
    union select 'a cancelled job is', queue from inturn.cancelled
    union select 'a lease is', queue from inturn.lease
) named
where not exists (select from inturn.queue q where q.name = named.name)
order by name, what
