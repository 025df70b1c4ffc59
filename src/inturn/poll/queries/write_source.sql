-- Write a source that was locked, all but what others write without its lock. The revision goes up.
update poll.source set
    revision = :revision + 1, cursor = :cursor, pages = :pages, changes = :changes,
    changed_at = :changed_at, succeeded_at = :succeeded_at, walk = :walk,
    walk_state = :walk_state, walk_cursor = :walk_cursor, walk_ended_at = :walk_ended_at,
    walk_missing = :walk_missing, walk_swept = :walk_swept
where name = :name
