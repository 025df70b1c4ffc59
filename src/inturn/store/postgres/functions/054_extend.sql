-- Prolong leases; return those that are still held, and the tokens of those that were prolonged.
-- One row a claim, however many lanes it has.
--
-- A row that someone has locked is left as it is and counts as held. It is locked by who settles
-- under it, perhaps in a transaction that stays open for long, and then nobody takes it back, for
-- reclaim passes over locked rows too; by an admit, for a moment; or by a reclaim that is taking
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
