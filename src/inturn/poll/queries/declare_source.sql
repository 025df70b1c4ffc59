-- Write a source as the code has it.
insert into poll.source (name, job, queue) values (:name, :job, :queue)
on conflict (name) do update set job = excluded.job, queue = excluded.queue
