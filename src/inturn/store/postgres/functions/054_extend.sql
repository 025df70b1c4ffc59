-- Prolong leases; return those that are still held. One row a claim, however many lanes it has.
create or replace function inturn.extend(
    p_tokens bigint[], p_lanes bigint[], p_lease_seconds double precision, p_now timestamptz
) returns table (token bigint, lane bigint) language sql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_bitmapscan = off as $$
    with held as (
        update inturn.lease l set
            until = coalesce(p_now, clock_timestamp()) + make_interval(secs => p_lease_seconds)
        where l.token in (
            select k.token from inturn.lease k
            where k.token = any(p_tokens)
            order by k.token
            for update)
        returning l.token
    )
    select h.token, d.lane
    from held h
    join unnest(p_tokens, p_lanes) as d(token, lane) on d.token = h.token
    where d.lane is null
       or exists (select from inturn.run r where r.token = d.token and r.lane = d.lane)
       or exists (select from inturn.lane l where l.id = d.lane and l.token = d.token)
$$;
