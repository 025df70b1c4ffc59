-- Write a lane's row back whole: the writer is alone, so what it read is still true.
update lane set
    kind = ?, priority = ?, round = ?, head = ?, cursor = ?, active = ?, rank_at = ?,
    waiting_since = ?, ready_at = ?, token = ?, head_attempt = ?, head_crashes = ?, head_errors = ?,
    suspect_last = ?, halted_at = ?, halted_job = ?, paused_at = ?, paused_by = ?
where id = ?
