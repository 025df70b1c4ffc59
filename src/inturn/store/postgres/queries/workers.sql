-- The workers that were heard of lately, the latest first.
select id, host, pid, version, queues, kinds, running, process, started_at, seen_at, array(
    select name from inturn.duty
    where duty.worker = worker.id and until > coalesce($1::timestamptz, clock_timestamp())
    order by name
) as duties
from inturn.worker order by seen_at desc, id
