-- Lease up to p_jobs_max jobs of a queue: move the cursors of the lanes they stand in, write the
-- lease.
--
-- Costs a small row a lane it touches, whatever the backlog: claimable lanes are found in order by
-- index, their jobs are one range of the log each. Right because positions are given under the
-- tail's lock: what a cursor passes is committed. Lanes are locked with "skip locked", so a claim
-- waits for no producer, and for another claim only while it holds nothing itself; cancelled
-- positions are read by a later statement than the one that locked the lane, which so sees every
-- cancel that came before (a cancel locks the lane, too).
--
-- p_lanes: the transaction has settled jobs of so many keyed lanes before, and so holds rows that
-- others may wait for: it does not wait for an open lane then, and looks at as many lanes first.
create or replace function inturn.claim(
    p_queue text, p_jobs_max integer, p_worker text, p_lease_seconds double precision,
    p_kinds text[], p_suspects_max integer, p_now timestamptz, p_lanes integer default null
) returns setof inturn.claimed language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_bitmapscan = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    v_until timestamptz := v_now + make_interval(secs => p_lease_seconds);
    v_left integer := p_jobs_max;
    v_best timestamptz;
    v_count integer;
    q record;  -- the queue, and what else there is to look after, or to claim, than lanes
    v_else boolean;
    v_lane bigint;
    v_taken inturn.taken;
begin
    select * into q from inturn.due(p_queue, v_now);
    if not found then
        return;
    end if;
    v_else := p_lanes is not null or q.sleepers or q.unsure or q.fresh or q.delayed or q.suspects
        or q.parked;
    if q.sleepers or q.unsure or q.fresh or q.delayed then
        if q.sleepers then
            perform inturn.wake(p_queue, v_now, q.aging_seconds);
        end if;
        if q.unsure then
            perform inturn.look_again(p_queue, v_now, v_now);
        end if;
        if q.fresh then
            perform inturn.admit(1000, v_now);
        end if;
        if q.delayed then
            perform inturn.promote(p_queue, v_now, 1000);
        end if;
        select * into q from inturn.due(p_queue, v_now);
    end if;

    if q.suspects and p_suspects_max > 0 then
        return query select * from inturn.claim_suspects(
            p_queue, least(p_suspects_max, v_left), p_worker, q.gate, p_kinds, v_now, v_until);
        get diagnostics v_count = row_count;
        v_left := v_left - v_count;
    end if;
    if q.parked and v_left > 0 then
        select l.rank_at into v_best
        from inturn.lane l
        cross join lateral (select o.last from inturn.tail o where o.lane = l.id limit 1) t
        where l.queue = p_queue and l.rank_at is not null and not l.suspect and l.round <= q.gate
          and (p_kinds is null or l.kind = any(p_kinds)) and t.last >= l.cursor
        order by l.round, l.rank_at, l.id
        limit 1;
        return query select * from inturn.claim_parked(
            p_queue, v_left, p_worker, q.gate, p_kinds, coalesce(v_best, 'infinity'),
            q.aging_seconds, v_now, v_until);
        get diagnostics v_count = row_count;
        v_left := v_left - v_count;
    end if;

    for v_look in 1 .. 2 loop
        exit when v_left <= 0;
        v_taken := inturn.take_lanes(
            p_queue, v_left, q.gate, p_kinds, q.aging_seconds, v_now, p_lanes);
        if v_taken.locked = 0 and not v_else then
            -- All are in other claims' hands. An open lane has room for many leases, and a claim
            -- holds it for a moment only: wait for one rather than come back with nothing. (Only
            -- who has locked nothing may wait, and for one row only: two that wait for each other
            -- would never end. A search that locks keeps even the rows that it passes over.)
            select l.id into v_lane
            from inturn.lane l
            where l.queue = p_queue and l.rank_at is not null and not l.suspect
              and l.round <= q.gate and l.key is null
              and (p_kinds is null or l.kind = any(p_kinds))
            order by l.round, l.rank_at, l.id
            limit 1;
            if found then
                perform from inturn.lane l where l.id = v_lane for no key update;
                v_taken := inturn.take_lanes(
                    p_queue, v_left, q.gate, p_kinds, q.aging_seconds, v_now, null);
            end if;
        end if;
        if v_taken.jobs > 0 then
            return next inturn.lease_lanes(
                v_taken, p_queue, p_worker, q.aging_seconds, v_now, v_until);
            v_left := v_left - v_taken.jobs;
        end if;
        exit when not q.unsure or v_look = 2;
        exit when not inturn.look_again(p_queue, 'infinity', v_now);
    end loop;

    if v_left > 0 and v_best is not null then
        return query select * from inturn.claim_parked(
            p_queue, v_left, p_worker, q.gate, p_kinds, 'infinity', q.aging_seconds,
            v_now, v_until);
    end if;
end $$;

-- A queue that may be claimed from, and what there is besides its claimable lanes: lanes whose
-- retry is due, lanes unsure of their head, waits to look at, delayed jobs that are due,
-- suspects, retries that are due. Each is one look into an index.
create or replace function inturn.due(p_queue text, p_now timestamptz) returns table (
    gate integer, aging_seconds double precision,
    sleepers boolean, unsure boolean, fresh boolean, delayed boolean, suspects boolean,
    parked boolean
) language sql stable as $$
    select
        q.gate, q.aging_seconds,
        exists (
            select from inturn.lane l where l.queue = p_queue and l.ready_at <= p_now),
        exists (
            select from inturn.lane l where l.queue = p_queue and l.look_at is not null),
        exists (
            select from inturn.waits w where w.fresh)
        or exists (
            select from inturn.admitting),
        exists (
            select from inturn.parked p
            where p.queue = p_queue and p.delayed and p.run_at <= p_now),
        exists (
            select from inturn.lane l
            where l.queue = p_queue and l.suspect and l.rank_at is not null)
        or exists (
            select from inturn.parked p
            where p.queue = p_queue and p.token is null and p.suspect and p.run_at <= p_now),
        exists (
            select from inturn.parked p
            where p.queue = p_queue and p.token is null and not p.suspect and not p.delayed
              and p.run_at <= p_now)
    from inturn.queue q
    where q.name = p_queue and q.paused_at is null
$$;
