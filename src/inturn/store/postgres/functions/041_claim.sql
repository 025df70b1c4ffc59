-- Lease up to p_jobs_max jobs of a queue: move the cursors of the lanes they stand in, write the
-- lease.
--
-- Costs a small row a lane it touches, whatever the backlog: claimable lanes are found in order by
-- index, their jobs are one range of the log each. Right because positions are given under the
-- tail's lock: what a cursor passes is committed. Lanes are locked with "skip locked", so claims
-- never wait for one another or for a producer; cancelled positions are read by a later statement
-- than the one that locked the lane, which so sees every cancel that came before.
--
-- A row a token: its lanes as arrays, and the jobs' columns as arrays over all its lanes, in order;
-- the payloads as one text, with the character U+001E between them, which no JSON text holds.
-- counts and positions are null when there are no gaps; attempts are those of each lane's first
-- job, the others'
-- is 1. Most jobs of a claim are alike, so kind, priority and so on are the first job's, and only
-- the jobs that differ from it (odd: their ids) have theirs spelt out; enqueued_ats is null when
-- all
-- were accepted at one time.
create or replace function inturn.claim(
    p_queue text, p_jobs_max integer, p_worker text, p_lease_seconds double precision,
    p_kinds text[], p_suspects_max integer, p_now timestamptz
) returns table (
    token bigint, until timestamptz, alone boolean,
    lanes bigint[], keys text[], firsts bigint[], lasts bigint[], attempts integer[],
    counts integer[], positions bigint[], ids uuid[], payloads text, kind text, priority smallint,
        round integer,
    attempts_max smallint, timeout_seconds double precision, enqueued_at timestamptz,
    odd uuid[], odd_kinds text[], odd_priorities smallint[], odd_rounds integer[],
    odd_attempts_max smallint[], odd_timeouts double precision[], enqueued_ats timestamptz[]
) language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_bitmapscan = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    v_until timestamptz := v_now + make_interval(secs => p_lease_seconds);
    v_gate integer;
    v_aging double precision;
    v_left integer := p_jobs_max;
    v_best timestamptz;
    v_count integer;
    v_due record;  -- what else there is to look after, or to claim, than lanes
    v_turn inturn.turn;
begin
    select q.gate, q.aging_seconds into v_gate, v_aging
    from inturn.queue q where q.name = p_queue and q.paused_at is null;
    if not found then
        return;
    end if;
    select exists (select from inturn.lane l
                   where l.queue = p_queue and l.ready_at <= v_now) as asleep,
           exists (select from inturn.blocked b where b.fresh) as fresh,
           exists (select from inturn.parked p
                   where p.queue = p_queue and p.delayed and p.run_at <= v_now) as delayed
    into v_due;
    if v_due.asleep then
        perform inturn.wake(p_queue, v_now, v_aging);
    end if;
    if v_due.fresh then
        perform inturn.admit(100, v_now);
    end if;
    if v_due.delayed then
        perform inturn.promote(p_queue, v_now, 1000);
    end if;

    select exists (select from inturn.lane l
                   where l.queue = p_queue and l.suspect and l.rank_at is not null)
           or exists (select from inturn.parked p
                      where p.queue = p_queue and p.token is null and p.suspect
                        and p.run_at <= v_now) as suspect,
           exists (select from inturn.parked p
                   where p.queue = p_queue and p.token is null and not p.suspect and not p.delayed
                     and p.run_at <= v_now) as parked
    into v_due;
    if v_due.suspect and p_suspects_max > 0 then
        return query select * from inturn.claim_suspects(
            p_queue, least(p_suspects_max, v_left), p_worker, v_gate, p_kinds, v_now, v_until);
        get diagnostics v_count = row_count;
        v_left := v_left - v_count;
    end if;
    if v_due.parked and v_left > 0 then
        select l.rank_at into v_best
        from inturn.lane l cross join lateral (
            select o.last from inturn.tail o where o.lane = l.id limit 1) t
        where l.queue = p_queue and l.rank_at is not null and not l.suspect and l.round <= v_gate
          and (p_kinds is null or l.kind = any(p_kinds)) and t.last >= l.cursor
        order by l.round, l.rank_at limit 1;
        return query select * from inturn.claim_parked(
            p_queue, v_left, p_worker, v_gate, p_kinds, coalesce(v_best, 'infinity'), v_aging,
            v_now, v_until);
        get diagnostics v_count = row_count;
        v_left := v_left - v_count;
    end if;

    if v_left > 0 then
        v_turn := inturn.take_lanes(p_queue, v_left, v_gate, p_kinds, v_aging, v_now);
        if v_turn.jobs = 0 and v_left = p_jobs_max then
            -- All are in other claims' hands. An open lane has room for many leases, and a claim
            -- holds it for a moment only: wait for one rather than come back with nothing.
            perform from inturn.lane l
            where l.queue = p_queue and l.rank_at is not null and not l.suspect
              and l.round <= v_gate and l.key is null
              and (p_kinds is null or l.kind = any(p_kinds))
            order by l.round, l.rank_at limit 1 for update;
            if found then
                v_turn := inturn.take_lanes(p_queue, v_left, v_gate, p_kinds, v_aging, v_now);
            end if;
        end if;
        if v_turn.jobs > 0 then
            return query select * from inturn.lease_lanes(
                v_turn, p_queue, p_worker, v_aging, v_now, v_until);
            v_left := v_left - v_turn.jobs;
        end if;
    end if;

    if v_left > 0 and v_best is not null then
        return query select * from inturn.claim_parked(
            p_queue, v_left, p_worker, v_gate, p_kinds, 'infinity', v_aging, v_now, v_until);
    end if;
end $$;
