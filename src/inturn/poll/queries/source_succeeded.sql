-- Note that a run has come to the end of a source.
update poll.source set succeeded_at = :now where name = :name
