-- Note the last job that reads a source, of those that no schedule has submitted.
update poll.source set last_job = :job where name = :name
