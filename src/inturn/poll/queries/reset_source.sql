-- Read a source from the beginning again.
update poll.source set cursor = null, revision = revision + 1, pass_state = 'none'
where name = :name
