-- Say what became of leased jobs. What is done comes as ranges of positions: of open lanes, of
-- keyed lanes, and as tokens of jobs leased from parked. The rest comes as p_others. p_tokens, in
-- order: the leases, and how many jobs of each are done. Returns how many keyed lanes it was about.
--
-- Right because the lease rows are locked first: whoever takes a lease back locks them too, so
-- either the lease is ours until this commits, or it is gone and the call writes nothing. What
-- waits for the jobs is locked next: who has that may wait for a tail, and this tries some later.
--
-- p_claims: a claim from this queue follows in the same transaction. If a place of the queue is
-- free now, it takes it, or tells those who wait.
--
-- The functions below have their plans made as this one, which calls them, has its own made.
create or replace function inturn.settle(
    p_tokens bigint[], p_counts bigint[],
    p_open_tokens bigint[], p_open_lanes bigint[], p_open_firsts bigint[], p_open_lasts bigint[],
    p_keyed_tokens bigint[], p_keyed_lanes bigint[], p_keyed_firsts bigint[],
    p_keyed_lasts bigint[],
    p_parked_tokens bigint[], p_others jsonb, p_results jsonb, p_tallies jsonb,
    p_worker text, p_now timestamptz, p_within boolean, p_claims text default null
) returns integer language plpgsql set plans = by_index as $$
#variable_conflict use_column
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    v_done uuid[];
    v_ons uuid[];      -- those of them that are waited for …
    v_waiting uuid[];  -- … and by which job
    v_more boolean;
    v_freed text[];    -- queues with limits of which places are free now
begin
    if p_within then
        perform set_config('inturn.within', 'yes', true);
    end if;
    if exists (select from inturn.limited) then
        v_freed := array(
            select distinct l.queue
            from inturn.lease l
            where l.token = any(p_tokens) and l.limited and l.queue is distinct from p_claims);
    end if;
    if p_others is not null then
        perform inturn.hold(p_tokens);
    elsif cardinality(p_tokens) = 1 then  -- most often the whole of one lease
        delete from inturn.lease l where l.token = p_tokens[1] and l.unsettled = p_counts[1];
        if not found then
            perform inturn.lessen(p_tokens, p_counts);
        end if;
    else
        perform inturn.lessen(p_tokens, p_counts);
    end if;
    if num_nonnulls(p_others, p_results) > 0 then
        perform inturn.check_jobs(coalesce(p_others, '[]') || coalesce(p_results, '[]'));
    end if;
    if exists (select from inturn.waits) then
        v_done := array(
            select j.id
            from unnest(
                p_open_lanes || p_keyed_lanes,
                p_open_firsts || p_keyed_firsts,
                p_open_lasts || p_keyed_lasts
            ) as r(lane, first, last)
            cross join lateral (
                select id from inturn.job
                where lane = r.lane and position between r.first and r.last
            ) j
            union all
            select id from inturn.parked where token = any(p_parked_tokens));
        select h.ons, h.jobs, h.more into v_ons, v_waiting, v_more
        from inturn.hold_waiting(v_done) h;
    end if;
    if cardinality(p_open_tokens) > 0 then
        perform inturn.complete_open(p_open_tokens, p_open_lanes, p_open_firsts, p_open_lasts);
    end if;
    if cardinality(p_keyed_tokens) > 0 then
        if inturn.complete_keyed(
            p_keyed_tokens, p_keyed_lanes, p_keyed_firsts, p_keyed_lasts, v_now) > 0
        then
            perform inturn.lost(p_keyed_tokens);
        end if;
    end if;
    if cardinality(p_parked_tokens) > 0 then
        perform inturn.complete_parked(p_parked_tokens);
    end if;
    if p_others is not null then
        perform inturn.lessen(
            array_agg(every.t order by every.t), array_agg(every.n order by every.t))
        from (
            select u.t, sum(u.n)::bigint as n
            from (
                select * from unnest(p_tokens, p_counts) as d(t, n)
                union all
                select o.token, o.jobs from inturn.settle_others(p_others, p_worker, v_now) o
            ) u
            group by u.t
        ) every
        where every.n > 0;
    end if;
    if cardinality(p_open_tokens) > 0 or p_others is not null then
        delete from inturn.run r
        where r.token = any(p_tokens) and r.settled @> int8range(r.first, r.last, '[]');
    end if;
    if v_more or cardinality(v_waiting) > 0 then
        perform inturn.unblock(v_done, v_ons, v_waiting, v_more, v_now);
    end if;
    if cardinality(v_freed) > 0 then
        perform pg_notify('inturn', f.queue) from unnest(v_freed) as f(queue);
    end if;
    if p_results is not null then
        insert into inturn.result (job, value, lost, until)
        select x.job, x.value::json, x.lost, v_now + make_interval(secs => x.seconds)
        from jsonb_to_recordset(p_results)
            as x(job uuid, value text, lost text, seconds double precision)
        on conflict (job) do update set
            value = excluded.value, lost = excluded.lost, until = excluded.until;
    end if;
    if exists (
        select from inturn.awaiting a
        where a.until > clock_timestamp() and a.queue = any(array(
            select x.queue
            from jsonb_to_recordset(p_tallies) as x(queue text, done bigint, buried bigint)
            where x.done + x.buried > 0))
    ) then
        perform pg_notify('inturn', '');
    end if;
    insert into inturn.stat (
        queue, kind, minute_at, done, retried, buried, released, seconds_sum, durations)
    select
        x.queue, x.kind, date_trunc('minute', v_now, 'UTC'),
        x.done, x.retried, x.buried, x.released, x.seconds_sum, x.durations
    from jsonb_to_recordset(p_tallies) as x(
        queue text, kind text, done bigint, retried bigint, buried bigint, released bigint,
        seconds_sum double precision, durations bigint[]);
    return cardinality(p_keyed_lanes);
end $$;

-- Lock leases, in the order of their tokens; raise if one is gone.
create or replace function inturn.hold(p_tokens bigint[]) returns void language plpgsql as $$
declare
    v_held bigint[];
begin
    v_held := array(
        select token from inturn.lease where token = any(p_tokens) order by token for update);
    if cardinality(v_held) < cardinality(p_tokens) then
        perform inturn.lost(array(select unnest(p_tokens) except select unnest(v_held)));
    end if;
end $$;

-- So many jobs of leases are settled: one that has none left goes. Raises if a lease is gone, or
-- never had so many. Most leases are settled whole and by one call; if one is not, all are locked
-- first, in the order of their tokens, as everyone locks them.
create or replace function inturn.lessen(p_tokens bigint[], p_counts bigint[]) returns void
language plpgsql as $$
declare
    v_gone bigint[] := '{}';
    v_left bigint[];
    v_some bigint[];
begin
    if cardinality(p_tokens) > 1 and exists (
        select from inturn.lease l
        where l.token = any(p_tokens)
          and l.unsettled <> p_counts[width_bucket(l.token, p_tokens)]
    ) then
        perform inturn.hold(p_tokens);
    end if;
    for v_look in 1 .. 2 loop
        with gone as (
            delete from inturn.lease l
            where l.token = any(p_tokens)
              and l.unsettled = p_counts[width_bucket(l.token, p_tokens)]
            returning l.token
        )
        select v_gone || array_agg(token) into v_gone from gone;
        if cardinality(v_gone) = cardinality(p_tokens) then
            return;
        end if;
        v_left := array(select unnest(p_tokens) except select unnest(v_gone) order by 1);
        if v_look = 1 then
            perform inturn.hold(v_left);
        end if;
    end loop;
    with lessened as (
        update inturn.lease l set
            unsettled = l.unsettled - p_counts[width_bucket(l.token, p_tokens)]
        where l.token = any(v_left) and l.unsettled > p_counts[width_bucket(l.token, p_tokens)]
        returning l.token
    )
    select coalesce(array_agg(token), '{}') into v_some from lessened;
    if cardinality(v_some) < cardinality(v_left) then
        perform inturn.lost(array(select unnest(v_left) except select unnest(v_some)));
    end if;
end $$;

-- Ranges of open lanes are done: the lease's row for a lane goes when all of it is.
create or replace function inturn.complete_open(
    p_tokens bigint[], p_lanes bigint[], p_firsts bigint[], p_lasts bigint[]
) returns void language plpgsql as $$
declare
    v_range int8range;
begin
    for i in 1 .. cardinality(p_tokens) loop
        delete from inturn.run r
        where r.token = p_tokens[i] and r.lane = p_lanes[i]
          and r.first = p_firsts[i] and r.last = p_lasts[i] and r.settled = '{}';
        continue when found;
        v_range := int8range(p_firsts[i], p_lasts[i], '[]');
        update inturn.run r set settled = r.settled + int8multirange(v_range)
        where r.token = p_tokens[i] and r.lane = p_lanes[i]
          and v_range <@ int8range(r.first, r.last, '[]') and not r.settled && v_range;
        if not found then
            perform inturn.lost(array[p_tokens[i]]);
        end if;
    end loop;
end $$;

-- Ranges of keyed lanes are done, each from its lane's head on, given in the order of lanes: a lane
-- whose run has ended is claimable again, or rests. (Nobody else moves a leased lane's head or
-- cursor: the lease row is locked.) Returns how many lanes are not leased so.
create or replace function inturn.complete_keyed(
    p_tokens bigint[], p_lanes bigint[], p_firsts bigint[], p_lasts bigint[], p_now timestamptz
) returns integer language plpgsql as $$
declare
    v_idle bigint[] := '{}';
    v_cancels bigint[];
    v_count integer;
    v_left integer := cardinality(p_tokens);
begin
    -- The common end of a short lane: nothing stands behind the run. As in refresh, the tail is
    -- only tried.
    if not inturn.within() then
        v_idle := array(
            select t.lane
            from inturn.tail t
            where t.lane = any(p_lanes) and t.last = p_lasts[width_bucket(t.lane, p_lanes)]
            for update skip locked);
    end if;
    if cardinality(v_idle) > 0 then
        v_left := v_left - inturn.rest_leased(v_idle, p_tokens, p_lanes, p_firsts, p_lasts);
    end if;
    if v_left > 0 then
        with ended as (
            update inturn.lane l set
                token = null, ready_at = null, head = l.cursor,
                head_attempt = 0, head_crashes = 0, head_errors = null,
                suspect = l.cursor <= l.suspect_last,
                (kind, priority, round, waiting_since, rank_at, look_at) = (
                    select
                        coalesce(h.kind, l.kind), coalesce(h.priority, l.priority),
                        coalesce(h.round, l.round), h.since,
                        case when l.paused_at is null and l.halted_at is null then h.rank_at end,
                        p_now + h.look_after
                    from inturn.head(
                        l.id, l.cursor, l.key, l.queue, l.priority, p_now,
                        '20 milliseconds') h)
            where l.id = any(p_lanes) and l.key is not null
              and l.token = p_tokens[width_bucket(l.id, p_lanes)]
              and l.head = p_firsts[width_bucket(l.id, p_lanes)]
              and l.cursor = p_lasts[width_bucket(l.id, p_lanes)] + 1
            returning l.id, l.cursor <= l.cancelled_last as cancels
        )
        select count(*), array_agg(e.id) filter (where e.cancels) into v_count, v_cancels
        from ended e;
        v_left := v_left - v_count;
        if v_cancels is not null then
            -- The new head may be cancelled: what counts is the first behind it that is not.
            perform inturn.pass(c.lane, null) from unnest(v_cancels) as c(lane);
            perform inturn.refresh(v_cancels, p_now);
        end if;
    end if;
    if v_left > 0 then
        update inturn.lane l set
            head = p_lasts[width_bucket(l.id, p_lanes)] + 1,
            head_attempt = 1, head_crashes = 0, head_errors = null
        where l.id = any(p_lanes) and l.key is not null
          and l.token = p_tokens[width_bucket(l.id, p_lanes)]
          and l.head = p_firsts[width_bucket(l.id, p_lanes)]
          and l.cursor > p_lasts[width_bucket(l.id, p_lanes)] + 1;
        get diagnostics v_count = row_count;
        v_left := v_left - v_count;
    end if;
    return v_left;
end $$;

-- Put lanes to sleep whose last jobs are done, as inturn.rest does, if they are still leased.
-- Returns how many were.
create or replace function inturn.rest_leased(
    p_idle bigint[],
    p_tokens bigint[], p_lanes bigint[], p_firsts bigint[], p_lasts bigint[]
) returns integer language plpgsql as $$
declare
    v_count integer;
begin
    update inturn.tail set last = last where lane = any(p_idle);
    update inturn.lane l set
        head = l.cursor, token = null, active = false, waiting_since = null, suspect = false,
        head_attempt = 0, head_crashes = 0, head_errors = null
    where l.id = any(p_idle)
      and l.token = p_tokens[width_bucket(l.id, p_lanes)]
      and l.head = p_firsts[width_bucket(l.id, p_lanes)]
      and l.cursor = p_lasts[width_bucket(l.id, p_lanes)] + 1;
    get diagnostics v_count = row_count;
    return v_count;
end $$;

-- Jobs leased from parked are done: they go.
create or replace function inturn.complete_parked(p_tokens bigint[]) returns void language plpgsql
    as $$
declare
    v_gone bigint[];
begin
    with gone as (delete from inturn.parked where token = any(p_tokens) returning token)
    select array_agg(token) into v_gone from gone;
    if coalesce(cardinality(v_gone), 0) < cardinality(p_tokens) then
        perform inturn.lost(array(select unnest(p_tokens) except select unnest(v_gone)));
    end if;
end $$;
