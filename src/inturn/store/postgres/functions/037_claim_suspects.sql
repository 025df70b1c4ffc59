-- Lease suspects, each alone under a token of its own, with its attempt counted now.
create or replace function inturn.claim_suspects(
    p_queue text, p_jobs_max integer, p_worker text, p_gate integer, p_kinds text[],
    p_now timestamptz, p_until timestamptz
) returns setof inturn.claimed language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_bitmapscan = off set plan_cache_mode = force_generic_plan as $$
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
                    token, queue, worker, claimed_at, until, lanes, unsettled, alone)
                select m.token, p_queue, p_worker, p_now, p_until, array[m.id], 1, true
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
            perform inturn.freshen(array[l.id], p_now);
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
            (select array_agg(d.id) from due d), p_worker, true, p_now, p_until);
    end if;
end $$;

-- Lease jobs from parked, each under a token of its own.
create or replace function inturn.lease_parked(
    p_ids uuid[], p_worker text, p_alone boolean, p_now timestamptz, p_until timestamptz
) returns setof inturn.claimed language sql as $$
    with taken as (
        update inturn.parked p set
            token = nextval('inturn.token'), attempt = p.attempt + 1
        where p.id = any(p_ids)
        returning p.*
    ), leased as (
        insert into inturn.lease (token, queue, worker, claimed_at, until, lanes, unsettled, alone)
        select t.token, t.queue, p_worker, p_now, p_until, '{}', 1, p_alone
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
    p_best timestamptz, p_aging double precision, p_now timestamptz, p_until timestamptz
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
        (select array_agg(c.id) from chosen c), p_worker, false, p_now, p_until)
$$;
