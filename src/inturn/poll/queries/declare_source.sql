-- Write a source as the code has it.
insert into poll.source (name, job) values (:name, :job)
on conflict (name) do update set job = excluded.job
