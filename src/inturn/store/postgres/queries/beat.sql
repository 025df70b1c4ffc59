-- Say that a worker lives.
insert into inturn.worker (id, host, pid, version, queues, kinds, running, process, started_at,
    seen_at, functions)
values (
    $1, $2, $3, $4, $5, $6, $7, $8,
    coalesce($9::timestamptz, clock_timestamp()), coalesce($9::timestamptz, clock_timestamp()), $10)
on conflict (id) do update set
    host = excluded.host, pid = excluded.pid, version = excluded.version, queues = excluded.queues,
    kinds = excluded.kinds, running = excluded.running, process = excluded.process,
    seen_at = excluded.seen_at, functions = excluded.functions
