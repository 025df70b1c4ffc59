-- Things of a queue that is not there, where no status counts them.
select what || ' of queue ' || quote(named.name) || ', which is not there.'
from (select 'a parked job is' as what, queue as name from parked
      union select 'a blocked job is', queue from blocked
      union select 'a dead letter is', queue from dead
      union select 'a cancelled job is', queue from cancelled
      union select 'a lease is', queue from lease) as named
where not exists (select 1 from queue where queue.name = named.name)
