-- Say that workers of a program run that declares these schedules.
insert into poll.declaration (digest, names, seen_at) values (:digest, :names, :now)
on conflict (digest) do update set seen_at = excluded.seen_at
