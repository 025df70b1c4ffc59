-- Write a source that was locked, all but what is written without the lock.
update poll.source set
    revision = :revision, cursor = :cursor, page_digest = :page_digest, pages = :pages,
    changes = :changes, changed_at = :changed_at, walk = :walk, walk_state = :walk_state,
    walk_cursor = :walk_cursor, walk_ended_at = :walk_ended_at, walk_missing = :walk_missing,
    walk_swept = :walk_swept
where name = :name
