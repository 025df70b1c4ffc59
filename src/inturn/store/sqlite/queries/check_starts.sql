-- Starts of a queue with a rate, as its row counts them and as they are.
select 'queue ' || quote(name) || ' counts ' || starts || ' starts, and there are ' || found || '.'
from (select name, starts,
             (select coalesce(sum(jobs), 0) from start where start.queue = queue.name) as found
      from queue)
where starts <> found
