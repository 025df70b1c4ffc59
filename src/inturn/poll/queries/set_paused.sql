-- Pause a schedule, or resume it.
update poll.schedule set paused_at = :at, paused_by = :by where name = :name
