-- Hold a queue, making it if need be: claims take nothing from it. $2: by whom.
insert into inturn.queue (name, paused_at, paused_by)
values ($1, coalesce($3::timestamptz, clock_timestamp()), $2::text)
on conflict (name) do update set paused_at = excluded.paused_at, paused_by = excluded.paused_by
