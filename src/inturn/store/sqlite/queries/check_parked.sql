-- Jobs that wait by themselves: only a delayed one has a key, and it never ran; none has spent its
-- attempts.
select 'job ' || uuid(id) || ' waits to retry by itself and has the key ' || quote(key)
    || ': one with a key waits in its lane.'
from parked where not delayed and key is not null
union all
select 'job ' || uuid(id) || ' counts ' || attempt || ' attempts and may have ' || attempts_max
    || '.'
from parked where attempt > attempts_max - (token is null)
union all
select 'job ' || uuid(id) || ' is delayed, and yet counts ' || attempt || ' attempts and '
    || crashes || ' crashes.'
from parked where delayed and (attempt > 0 or crashes > 0)
