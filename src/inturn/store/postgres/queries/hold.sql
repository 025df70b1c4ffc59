-- Let worker $2 alone do duty $1 for $3 seconds, unless another does.
insert into inturn.duty (name, worker, until)
values ($1, $2, coalesce($4::timestamptz, clock_timestamp()) + make_interval(secs => $3))
on conflict (name) do update set worker = excluded.worker, until = excluded.until
where duty.worker = excluded.worker
    or duty.until <= coalesce($4::timestamptz, clock_timestamp())
returning true
