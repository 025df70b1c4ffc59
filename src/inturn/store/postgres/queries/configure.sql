-- Set how a queue behaves, and what code last said of it.
update inturn.queue set
    on_dead = $2, depth_max = $3, lane_depth_max = $4, keep_done_seconds = $5, aging_seconds = $6,
    replay = $7, suspects = $8, running_max = $9, rate = $10, rate_seconds = $11, local = $12,
    declared = $13
where name = $1
