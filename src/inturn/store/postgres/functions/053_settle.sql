-- Say what became of leased jobs. What is done comes as ranges of positions: of open lanes, of
-- keyed lanes, and as tokens of jobs leased from parked. The rest comes as p_others.
--
-- Right because the lease rows are locked first: whoever takes a lease back locks them too, so
-- either the lease is ours until this commits, or it is gone and the call writes nothing.
create or replace function inturn.settle(
    p_open_tokens bigint[], p_open_lanes bigint[], p_open_firsts bigint[], p_open_lasts bigint[],
    p_keyed_tokens bigint[], p_keyed_lanes bigint[], p_keyed_firsts bigint[],
        p_keyed_lasts bigint[],
    p_parked_tokens bigint[], p_others jsonb, p_results jsonb, p_tallies jsonb, p_worker text,
        p_now timestamptz
) returns void language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
    set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    v_tokens bigint[];   -- which lease …
    v_jobs bigint[];     -- … loses how many jobs
    v_held bigint[];
    v_done uuid[];
    v_freed bigint[];
    v_ended integer;
begin
    select array_agg(t order by t), array_agg(n order by t) into v_tokens, v_jobs from (
        select every.t, sum(every.n)::bigint as n from (
            select t, last - first + 1 as n
            from unnest(p_open_tokens, p_open_firsts, p_open_lasts) as o(t, first, last)
            union all select t, last - first + 1
            from unnest(p_keyed_tokens, p_keyed_firsts, p_keyed_lasts) as k(t, first, last)
            union all select t, 1 from unnest(p_parked_tokens) as p(t)
            union all select (x ->> 'token')::bigint, 0 from jsonb_array_elements(p_others) x
        ) every group by every.t
    ) summed;
    select array_agg(l.token) into v_held from (
        select token from inturn.lease where token = any(v_tokens) order by token for update) l;
    if cardinality(v_held) is distinct from cardinality(v_tokens) then
        perform inturn.lost(array(select unnest(v_tokens) except select unnest(v_held)));
    end if;
    if jsonb_array_length(p_others) + jsonb_array_length(p_results) > 0 then
        perform inturn.check_jobs(p_others || p_results);
    end if;

    if exists (select from inturn.waits) then
        v_done := array(
            select j.id from unnest(p_open_lanes || p_keyed_lanes, p_open_firsts || p_keyed_firsts,
                p_open_lasts || p_keyed_lasts)
                as r(lane, first, last)
            cross join lateral (select id from inturn.job where lane = r.lane
                and position between r.first and r.last) j
            union all select id from inturn.parked where token = any(p_parked_tokens));
    end if;
    if cardinality(p_open_tokens) > 0 then
        perform inturn.complete_open(p_open_tokens, p_open_lanes, p_open_firsts, p_open_lasts);
    end if;
    if cardinality(p_keyed_tokens) > 0 then
        v_freed := inturn.complete_keyed(
            p_keyed_tokens, p_keyed_lanes, p_keyed_firsts, p_keyed_lasts);
    end if;
    if cardinality(p_parked_tokens) > 0 then
        perform inturn.complete_parked(p_parked_tokens);
    end if;
    if jsonb_array_length(p_others) > 0 then
        select array_agg(t order by t), array_agg(n order by t) into v_tokens, v_jobs from (
            select every.t, sum(every.n)::bigint as n from (
                select * from unnest(v_tokens, v_jobs) as d(t, n)
                union all select o.token, o.jobs
                    from inturn.settle_others(p_others, p_worker, v_now) o
            ) every group by every.t
        ) summed;
    end if;
    delete from inturn.run r where r.token = any(v_held)
        and r.settled @> int8range(r.first, r.last, '[]');
    if v_freed is not null then
        perform inturn.freshen(v_freed, true, v_now);
    end if;

    delete from inturn.lease l
    where l.token = any(v_tokens) and l.unsettled = v_jobs[width_bucket(l.token, v_tokens)];
    get diagnostics v_ended = row_count;
    if v_ended < cardinality(v_tokens) then
        update inturn.lease l set unsettled = l.unsettled - v_jobs[width_bucket(l.token, v_tokens)]
        where l.token = any(v_tokens) and v_jobs[width_bucket(l.token, v_tokens)] > 0;
    end if;
    if cardinality(v_done) > 0 then
        perform inturn.unblock(v_done, v_now);
    end if;
    if jsonb_array_length(p_results) > 0 then
        insert into inturn.result (job, value, until)
        select x.job, x.value::json, v_now + make_interval(secs => x.seconds)
        from jsonb_to_recordset(p_results) as x(job uuid, value text, seconds double precision)
        on conflict (job) do update set value = excluded.value, until = excluded.until;
    end if;
    insert into inturn.stat (queue, kind, minute_at, done, retried, buried, released, seconds_sum,
        durations)
    select x.queue, x.kind, date_trunc('minute', v_now, 'UTC'), x.done, x.retried, x.buried,
        x.released, x.seconds_sum,
           array(select jsonb_array_elements_text(x.durations)::bigint)
    from jsonb_to_recordset(p_tallies) as x(
        queue text, kind text, done bigint, retried bigint, buried bigint, released bigint,
            seconds_sum double precision,
        durations jsonb);
end $$;

-- Ranges of open lanes are done: the lease's row for a lane goes when all of it is.
create or replace function inturn.complete_open(
    p_tokens bigint[], p_lanes bigint[], p_firsts bigint[], p_lasts bigint[]
) returns void language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_bitmapscan = off set plan_cache_mode = force_generic_plan as $$
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

-- Ranges of keyed lanes are done, each from its lane's head on. Returns the lanes whose run has
-- ended, for freshen to free. (Nobody else moves a leased lane's head or cursor: the lease row is
-- locked.)
create or replace function inturn.complete_keyed(
    p_tokens bigint[], p_lanes bigint[], p_firsts bigint[], p_lasts bigint[]
) returns bigint[] language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_bitmapscan = off set plan_cache_mode = force_generic_plan as $$
declare
    d record;  -- what is done, in the order of lanes
    v_idle bigint[];
    v_held bigint[];
    v_ended bigint[];
    v_settled integer := 0;
begin
    if cardinality(p_tokens) = 0 then
        return null;
    end if;
    select array_agg(r.token order by r.lane) as tokens, array_agg(r.lane order by r.lane) as lanes,
           array_agg(r.first order by r.lane) as firsts, array_agg(r.last order by r.lane) as lasts
    into d from unnest(p_tokens, p_lanes, p_firsts, p_lasts) as r(token, lane, first, last);
    -- The common end of a short lane: nothing stands behind the run. As in freshen, the tail is
    -- only
    -- tried, and written.
    v_idle := array(
        select t.lane from inturn.tail t
        where t.lane = any(d.lanes) and t.last = d.lasts[width_bucket(t.lane, d.lanes)]
        for update skip locked);
    if cardinality(v_idle) > 0 then
        update inturn.tail set last = last where lane = any(v_idle);
        update inturn.lane l set
            head = l.cursor, token = null, active = false, waiting_since = null, suspect = false,
            head_attempt = 0, head_crashes = 0, head_errors = null
        where l.id = any(v_idle)
          and l.token = d.tokens[width_bucket(l.id, d.lanes)]
          and l.head = d.firsts[width_bucket(l.id, d.lanes)]
          and l.cursor = d.lasts[width_bucket(l.id, d.lanes)] + 1;
        get diagnostics v_settled = row_count;
        if v_settled < cardinality(v_idle) then
            perform inturn.lost(p_tokens);
        end if;
    end if;
    if v_settled = cardinality(p_tokens) then
        return null;
    end if;
    select array_agg(l.id), array_agg(l.id) filter (
        where l.cursor = d.lasts[width_bucket(l.id, d.lanes)] + 1)
    into v_held, v_ended
    from inturn.lane l
    where l.id = any(d.lanes) and l.id <> all(v_idle) and l.key is not null
      and l.token = d.tokens[width_bucket(l.id, d.lanes)]
      and l.head = d.firsts[width_bucket(l.id, d.lanes)]
      and l.cursor > d.lasts[width_bucket(l.id, d.lanes)];
    if v_settled + coalesce(cardinality(v_held), 0) < cardinality(p_tokens) then
        perform inturn.lost(p_tokens);
    end if;
    if coalesce(cardinality(v_ended), 0) < cardinality(v_held) then
        update inturn.lane l set
            head = d.lasts[width_bucket(l.id, d.lanes)] + 1,
            head_attempt = 1, head_crashes = 0, head_errors = null
        where l.id = any(v_held) and l.cursor > d.lasts[width_bucket(l.id, d.lanes)] + 1;
    end if;
    return v_ended;
end $$;

-- Jobs leased from parked are done: they go.
create or replace function inturn.complete_parked(p_tokens bigint[]) returns void language plpgsql
    as $$
declare
    v_gone bigint[];
begin
    if cardinality(p_tokens) = 0 then
        return;
    end if;
    with gone as (delete from inturn.parked where token = any(p_tokens) returning token)
    select array_agg(token) into v_gone from gone;
    if coalesce(cardinality(v_gone), 0) < cardinality(p_tokens) then
        perform inturn.lost(array(select unnest(p_tokens) except select unnest(v_gone)));
    end if;
end $$;
