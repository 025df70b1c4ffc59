-- The jobs of some runs, given as JSON [[lane, first, last], …], all in one row.
-- One row because a thread that runs SQLite gives up Python's lock at every row it steps to, and
-- beside a busy thread it waits 5 ms to get it back. The payloads are one text by themselves, with
-- the character U+001E between them, which no JSON text holds: there is nothing to escape.
-- Cancelled positions are left out.
select json_group_array(json_array(
    run, position, hex(id), kind, priority, round, attempts_max, timeout_seconds, enqueued_at)),
    group_concat(payload, char(30))
from (
    select runs.key as run, job.*
    from json_each(?1) as runs
    cross join job on job.lane = json_extract(runs.value, '$[0]')
        and job.position between json_extract(runs.value, '$[1]')
                             and json_extract(runs.value, '$[2]')
    where not exists (select 1 from cancelled
                      where cancelled.lane = job.lane and cancelled.position = job.position)
    order by runs.key, job.position
)
