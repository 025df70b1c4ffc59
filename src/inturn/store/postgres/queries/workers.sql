-- The workers that were heard of lately, the latest first.
select id, host, pid, version, queues, kinds, running, process, started_at, seen_at
from inturn.worker order by seen_at desc, id
