-- Say that a worker has ended.
delete from inturn.worker where id = $1
