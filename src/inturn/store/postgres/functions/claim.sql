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
) returns setof inturn.claimed language plpgsql set plans = by_index as $$
#variable_conflict use_column
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    v_until timestamptz := v_now + make_interval(secs => p_lease_seconds);
    v_left integer := p_jobs_max;
    v_best timestamptz;
    v_count integer;
    v_places bigint;  -- of a queue with limits
    v_most integer;  -- so many of them
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
            perform inturn.wake_lanes(p_queue, v_now, q.aging_seconds);
        end if;
        if q.unsure then
            perform inturn.look_again(p_queue, v_now, v_now);
        end if;
        if q.fresh then
            perform inturn.recheck(1000, v_now);
        end if;
        if q.delayed then
            perform inturn.wake_parked(p_queue, v_now, 1000);
        end if;
        select * into q from inturn.due(p_queue, v_now);
    end if;

    if q.limited then
        select p.places, p.at into v_places, v_now
        from inturn.places(p_queue, q.running_max, q.rate, q.rate_seconds, p_now) p;
        v_left := least(v_left, v_places);
        if v_left = 0 then
            return;
        end if;
        v_most := v_left;
        v_until := v_now + make_interval(secs => p_lease_seconds);
        v_else := true;  -- who holds the row of limited waits for nobody
    end if;
    if q.suspects and p_suspects_max > 0 then
        return query select * from inturn.claim_suspects(
            p_queue, least(p_suspects_max, v_left), p_worker, q.gate, p_kinds, v_now, v_until,
            q.limited);
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
            q.aging_seconds, v_now, v_until, q.limited);
        get diagnostics v_count = row_count;
        v_left := v_left - v_count;
    end if;

    for v_look in 1 .. 2 loop
        exit when v_left <= 0;
        v_taken := inturn.take_lanes(
            p_queue, v_left, q.gate, p_kinds, q.aging_seconds, v_now, p_lanes, q.keyed_max);
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
                    p_queue, v_left, q.gate, p_kinds, q.aging_seconds, v_now, null, q.keyed_max);
            end if;
        end if;
        if v_taken.jobs > 0 then
            return next inturn.lease_lanes(
                v_taken, p_queue, p_worker, q.aging_seconds, v_now, v_until, q.limited);
            v_left := v_left - v_taken.jobs;
        end if;
        exit when not q.unsure or v_look = 2;
        exit when not inturn.look_again(p_queue, 'infinity', v_now);
    end loop;

    if v_left > 0 and v_best is not null then
        return query select * from inturn.claim_parked(
            p_queue, v_left, p_worker, q.gate, p_kinds, 'infinity', q.aging_seconds,
            v_now, v_until, q.limited);
        get diagnostics v_count = row_count;
        v_left := v_left - v_count;
    end if;
    if q.limited then
        perform inturn.note_starts(p_queue, q.rate, v_most - v_left, v_now);
        if p_lanes is not null and v_places > v_most - v_left then
            perform pg_notify('inturn', p_queue);  -- the settle of this turn has left it to us
        end if;
    end if;
end $$;

-- A queue that may be claimed from, and what there is besides its claimable lanes: lanes whose
-- retry is due, lanes unsure of their head, waits to look at, delayed jobs that are due,
-- suspects, retries that are due. Each is one look into an index.
create or replace function inturn.due(p_queue text, p_now timestamptz) returns table (
    gate integer, aging_seconds double precision,
    limited boolean, running_max integer, rate integer, rate_seconds double precision,
    keyed_max integer, -- how many jobs of a key a claim takes
    sleepers boolean, unsure boolean, fresh boolean, delayed boolean, suspects boolean,
    parked boolean
) language sql stable as $$
    select
        q.gate, q.aging_seconds,
        num_nonnulls(q.running_max, q.rate) > 0, q.running_max, q.rate, q.rate_seconds,
        case
            when q.replay = 'none' or num_nonnulls(q.running_max, q.rate) > 0 then 1
            else 2147483647
        end,
        exists (
            select from inturn.lane l where l.queue = p_queue and l.ready_at <= p_now),
        exists (
            select from inturn.lane l where l.queue = p_queue and l.look_at is not null),
        exists (
            select from inturn.waits w where w.fresh)
        or exists (
            select from inturn.admitting)
        or exists (
            select from inturn.reacting),
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

-- Lease suspects, each alone under a token of its own, with its attempt counted now.
create or replace function inturn.claim_suspects(
    p_queue text, p_jobs_max integer, p_worker text, p_gate integer, p_kinds text[],
    p_now timestamptz, p_until timestamptz, p_limited boolean
) returns setof inturn.claimed language plpgsql set plans = by_index as $$
#variable_conflict use_column
declare
    l record;
    v_left integer := p_jobs_max;
begin
    for l in
        select s.id
        from inturn.lane s
        where s.queue = p_queue and s.suspect and s.rank_at is not null and s.round <= p_gate
          and (p_kinds is null or s.kind = any(p_kinds))
        order by s.round, s.rank_at, s.id
        limit v_left
        for update skip locked
    loop
        perform inturn.pass(l.id, null)
        where exists (
            select from inturn.cancelled c
            join inturn.lane s on s.id = c.lane and s.cursor = c.position
            where s.id = l.id);
        if exists (
            select from inturn.lane s
            join inturn.job j on j.lane = s.id and j.position = s.cursor
            where s.id = l.id and j.round <= p_gate and s.cursor <= s.suspect_last
        ) then
            return query
            with moved as (
                update inturn.lane s set
                    cursor = s.cursor + 1, head_attempt = s.head_attempt + 1,
                    token = nextval('inturn.token'), rank_at = null
                where s.id = l.id
                returning s.id, s.key, s.head, s.token, s.head_attempt
            ), leased as (
                insert into inturn.lease (
                    token, queue, worker, claimed_at, until, lanes, unsettled, alone, limited)
                select m.token, p_queue, p_worker, p_now, p_until, array[m.id], 1, true, p_limited
                from moved m
            )
            select
                m.token, p_until, true,
                array[m.id], array[m.key], array[m.head], array[m.head], array[m.head_attempt],
                null::integer[], null::bigint[], uuid_send(j.id), j.payload,
                j.kind, j.priority, j.round,
                j.attempts_max, j.timeout_seconds, j.enqueued_at,
                null::uuid[], null::text[], null::smallint[], null::integer[],
                null::smallint[], null::double precision[], null::bytea
            from moved m
            join inturn.job j on j.lane = m.id and j.position = m.head;
            v_left := v_left - 1;
        else
            perform inturn.refresh(array[l.id], p_now);
        end if;
    end loop;
    if v_left > 0 then
        return query
        with due as (
            select p.id
            from inturn.parked p
            where p.queue = p_queue and p.token is null and p.suspect and p.run_at <= p_now
              and p.round <= p_gate
              and (p_kinds is null or p.kind = any(p_kinds))
            order by p.run_at, p.id
            limit v_left
            for update skip locked
        )
        select *
        from inturn.lease_parked(
            (select array_agg(d.id) from due d), p_worker, true, p_now, p_until,
            p_limited);
    end if;
end $$;

-- Lease jobs from parked, each under a token of its own.
create or replace function inturn.lease_parked(
    p_ids uuid[], p_worker text, p_alone boolean, p_now timestamptz, p_until timestamptz,
    p_limited boolean
) returns setof inturn.claimed language sql as $$
    with taken as (
        update inturn.parked p set
            token = nextval('inturn.token'), attempt = p.attempt + 1
        where p.id = any(p_ids)
        returning p.*
    ), leased as (
        insert into inturn.lease (
            token, queue, worker, claimed_at, until, lanes, unsettled, alone, limited)
        select t.token, t.queue, p_worker, p_now, p_until, '{}', 1, p_alone, p_limited
        from taken t
    )
    select
        t.token, p_until, p_alone,
        null::bigint[], array[t.key], array[1::bigint], array[1::bigint], array[t.attempt],
        null::integer[], null::bigint[], uuid_send(t.id), t.payload,
        t.kind, t.priority, t.round,
        t.attempts_max, t.timeout_seconds, t.enqueued_at,
        null::uuid[], null::text[], null::smallint[], null::integer[],
        null::smallint[], null::double precision[], null::bytea
    from taken t
    order by t.run_at, t.id
$$;

-- Lease due jobs from parked that come before the best lane (rank), oldest due time first.
-- It looks at no more than a few times as many rows as it may take, so that a mass of retries
-- that lanes outrank costs a claim little.
create or replace function inturn.claim_parked(
    p_queue text, p_jobs_max integer, p_worker text, p_gate integer, p_kinds text[],
    p_best timestamptz, p_aging double precision, p_now timestamptz, p_until timestamptz,
    p_limited boolean
) returns setof inturn.claimed language sql as $$
    with due as (
        select p.id, inturn.rank(p.run_at, p.priority, p_aging) as rank
        from inturn.parked p
        where p.queue = p_queue and p.token is null and not p.suspect and not p.delayed
          and p.run_at <= p_now
          and p.round <= p_gate
          and (p_kinds is null or p.kind = any(p_kinds))
        order by p.run_at, p.id
        limit p_jobs_max * 4 + 100
        for update skip locked
    ), chosen as (
        select d.id from due d where d.rank <= p_best order by d.rank, d.id limit p_jobs_max
    )
    select *
    from inturn.lease_parked(
        (select array_agg(c.id) from chosen c), p_worker, false, p_now, p_until,
        p_limited)
$$;
