-- Say how far a job is, in the place of what was said before; null if its lease is gone.
-- Right without a lock: who loses the lease meanwhile has written a row that nobody shows, for it
-- names the token that is gone, and a later lease writes over it.
create or replace function inturn.progress(
    p_token bigint, p_lane bigint, p_job uuid, p_fraction double precision, p_note text,
    p_now timestamptz
) returns uuid language sql as $$
    insert into inturn.progress as p (job, token, fraction, note, said_at)
    select p_job, e.token, p_fraction, p_note, coalesce(p_now, clock_timestamp())
    from inturn.lease e
    where e.token = p_token and (
        p_lane is null
        or exists (select from inturn.run r where r.token = p_token and r.lane = p_lane)
        or exists (select from inturn.lane l where l.id = p_lane and l.token = p_token))
    on conflict (job) do update set
        token = excluded.token, fraction = excluded.fraction, note = excluded.note,
        said_at = excluded.said_at
    where p.token <= excluded.token
    returning job
$$;
