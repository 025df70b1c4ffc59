-- Move a walk through a source behind a page, or on to what comes after the last.
update poll.source set
    revision = revision + 1, pages = pages + :pages, items = items + :items,
    changes = changes + :changes, changed_at = coalesce(:changed_at, changed_at),
    pass = :pass, pass_state = :state, pass_cursor = :cursor, pass_began_at = :began_at,
    pass_ended_at = :ended_at, pass_swept = :swept, pass_missing = :missing
where name = :name
