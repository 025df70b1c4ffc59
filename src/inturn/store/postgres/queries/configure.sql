-- Set how a queue behaves, making it if need be.
insert into inturn.queue (
    name, on_dead, depth_max, lane_depth_max, keep_done_seconds, aging_seconds,
    replay, suspects, running_max, rate, rate_seconds, local)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
on conflict (name) do update set
    on_dead = excluded.on_dead, depth_max = excluded.depth_max,
    lane_depth_max = excluded.lane_depth_max, keep_done_seconds = excluded.keep_done_seconds,
    aging_seconds = excluded.aging_seconds, replay = excluded.replay,
    suspects = excluded.suspects, running_max = excluded.running_max, rate = excluded.rate,
    rate_seconds = excluded.rate_seconds, local = excluded.local
