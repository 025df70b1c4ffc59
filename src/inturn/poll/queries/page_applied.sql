-- Move a source behind a page that was applied.
update poll.source set
    cursor = :cursor, revision = revision + 1, pages = pages + 1, items = items + :items,
    changes = changes + :changes, changed_at = coalesce(:changed_at, changed_at),
    succeeded_at = coalesce(:succeeded_at, succeeded_at)
where name = :name
