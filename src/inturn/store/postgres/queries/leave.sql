-- Say that a worker has ended; what it did alone another may do.
with given_up as (delete from inturn.duty where worker = $1)
delete from inturn.worker where id = $1
