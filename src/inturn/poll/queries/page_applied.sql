-- Move a source behind pages that were applied.
update poll.source set
    cursor = :cursor, revision = revision + 1, pages = pages + :pages, items = items + :items,
    changes = changes + :changes, changed_at = coalesce(:changed_at, changed_at),
    succeeded_at = coalesce(:succeeded_at, succeeded_at)
where name = :name
