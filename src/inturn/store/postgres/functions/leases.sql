-- Prolong leases; return those that are still held, and the tokens of those that were prolonged.
-- One row a claim, however many lanes it has.
--
-- A row that someone has locked is left as it is and counts as held. It is locked by a settle
-- under it, perhaps in a transaction that stays open for long, and then nobody takes it back, for
-- reclaim passes over locked rows too; by a recheck, for a moment; or by a reclaim that is taking
-- it back, which the next extend, or the fence of the settle, tells the worker. To wait instead
-- would let one open transaction stop the heartbeat of every lease of the worker. The caller asks
-- again for those in a moment; what is left unsettled when a long transaction ends is prolonged by
-- the next extend, unless a reclaim comes first.
create or replace function inturn.extend(
    p_tokens bigint[], p_lanes bigint[], p_lease_seconds double precision, p_now timestamptz
) returns table (token bigint, lane bigint, is_prolonged boolean) language sql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_bitmapscan = off as $$
    with prolonged as (
        update inturn.lease l set
            until = coalesce(p_now, clock_timestamp()) + make_interval(secs => p_lease_seconds)
        where l.token in (
            select k.token from inturn.lease k
            where k.token = any(p_tokens)
            order by k.token
            for update skip locked)
        returning l.token
    )
    select d.token, d.lane, false
    from unnest(p_tokens, p_lanes) as d(token, lane)
    join inturn.lease e on e.token = d.token
    where d.lane is null
       or exists (select from inturn.run r where r.token = d.token and r.lane = d.lane)
       or exists (select from inturn.lane l where l.id = d.lane and l.token = d.token)
    union all
    select p.token, null, true from prolonged p
$$;

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
