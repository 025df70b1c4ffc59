-- Forget what was seen of a source.
delete from poll.shadow where source = :source
