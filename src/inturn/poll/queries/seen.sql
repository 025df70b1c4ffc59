-- Say that workers of a program run that declares these schedules and sources.
insert into poll.declaration (digest, names, sources, seen_at)
values (:digest, :names, :sources, :now)
on conflict (digest) do update set seen_at = excluded.seen_at
