-- Sets of functions that nobody needs any more, $1 aside. A program that only submits has no row
-- here, so a set stays for a week after it was replaced.
select name from inturn.functions f
where dropped_at is null and replaced_at < now() - interval '7 days' and name <> $1
    and not exists (select from inturn.worker w where w.functions = f.name)
