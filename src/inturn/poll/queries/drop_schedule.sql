-- Take away the schedule of a source that has none any more.
delete from poll.schedule where name = :name
