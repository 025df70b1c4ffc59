-- Say how far a job is, in the place of what was said before, unless a later lease said that.
insert into progress (job, token, fraction, note, said_at) values (?, ?, ?, ?, ?)
on conflict do update set
    token = excluded.token, fraction = excluded.fraction, note = excluded.note,
    said_at = excluded.said_at
where progress.token <= excluded.token
