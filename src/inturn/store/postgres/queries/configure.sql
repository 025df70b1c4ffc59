-- Set how a queue behaves, making it if need be.
insert into inturn.queue (
    name, on_dead, depth_max, lane_depth_max, keep_done_seconds, aging_seconds)
values ($1, $2, $3, $4, $5, $6)
on conflict (name) do update set
    on_dead = excluded.on_dead, depth_max = excluded.depth_max,
    lane_depth_max = excluded.lane_depth_max, keep_done_seconds = excluded.keep_done_seconds,
    aging_seconds = excluded.aging_seconds
