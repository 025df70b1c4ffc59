-- Accept jobs, all or none: dedupe, dependencies and bounds first, then each to its place.
-- p_waits_job[i] waits for p_waits_on[i]. Returns a ticket for each job, in the given order.
create or replace function inturn.accept(
    p_ids uuid[], p_queues text[], p_keys text[], p_kinds text[], p_payloads text[],
    p_priorities integer[], p_rounds integer[], p_attempts integer[], p_timeouts double precision[],
    p_delays double precision[], p_dedupes text[], p_dedupe_seconds double precision[],
    p_waits_job uuid[], p_waits_on uuid[], p_now timestamptz
) returns table (
    n bigint, id uuid, lane bigint, "position" bigint, duplicate boolean
) language plpgsql
set enable_seqscan = off set enable_hashjoin = on set enable_mergejoin = on as $$
#variable_conflict use_column
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    v_ids uuid[] := p_ids;  -- a duplicate's id is replaced by the first job's
    v_fresh boolean[] := array_fill(true, array[cardinality(p_ids)]);
    v_first uuid;
    i integer;
    v_waiting uuid[] := '{}';
begin
    perform inturn.check_new(p_ids);
    if exists (select from inturn.job where id = any(p_ids)) then
        raise exception 'a job of this batch is in the store already'
        using errcode = 'unique_violation';
    end if;
    if num_nonnulls(variadic p_dedupes) > 0 then
        -- In one order for everyone, so that two batches never wait for each other's keys.
        for i in
            select d.n
            from unnest(p_queues, p_dedupes) with ordinality as d(queue, dedupe, n)
            where d.dedupe is not null
            order by d.queue, d.dedupe, d.n
        loop
            v_first := inturn.dedupe(
                p_queues[i], p_dedupes[i], p_ids[i],
                inturn.digest(p_kinds[i], p_keys[i], p_payloads[i]),
                p_dedupe_seconds[i], v_now);
            if v_first <> p_ids[i] then
                v_ids[i] := v_first;
                v_fresh[i] := false;
            end if;
        end loop;
    end if;
    if cardinality(p_waits_job) > 0 then
        v_waiting := inturn.block(
            p_ids, v_ids, v_fresh, p_queues, p_keys, p_kinds, p_payloads, p_priorities, p_rounds,
            p_attempts, p_timeouts, p_waits_job, p_waits_on, v_now);
    end if;
    perform inturn.check_bounds(p_queues, p_keys, (
        select array_agg(f::integer order by n) from unnest(v_fresh) with ordinality as f(f, n)));

    if cardinality(p_waits_job) > 0 or 0 < any(p_delays) then
        perform inturn.make_queues(p_queues);
    end if;
    insert into inturn.parked (
        id, queue, key, kind, payload, priority, round,
        attempts_max, timeout_seconds, enqueued_at,
        delayed, run_at)
    select
        j.id, j.queue, j.key, j.kind, j.payload, j.priority, j.round,
        j.attempts, j.timeout, v_now,
        true, v_now + make_interval(secs => j.delay)
    from unnest(
        v_ids, p_queues, p_keys, p_kinds, p_payloads, p_priorities, p_rounds,
        p_attempts, p_timeouts, p_delays, v_fresh
    ) as j(id, queue, key, kind, payload, priority, round, attempts, timeout, delay, fresh)
    where j.fresh and j.delay > 0;

    return query
    with now as (
        select
            array_agg(j.id order by j.n) as ids,
            array_agg(j.queue order by j.n) as queues,
            array_agg(j.key order by j.n) as keys,
            array_agg(j.kind order by j.n) as kinds,
            array_agg(j.payload order by j.n) as payloads,
            array_agg(j.priority order by j.n) as priorities,
            array_agg(j.round order by j.n) as rounds,
            array_agg(j.attempts order by j.n) as attempts,
            array_agg(j.timeout order by j.n) as timeouts,
            array_agg(v_now order by j.n) as sinces
        from unnest(
            v_ids, p_queues, p_keys, p_kinds, p_payloads, p_priorities, p_rounds,
            p_attempts, p_timeouts, p_delays, v_fresh
        ) with ordinality
            as j(id, queue, key, kind, payload, priority, round, attempts, timeout, delay, fresh, n)
        where j.fresh and j.delay = 0 and j.id not in (select unnest(v_waiting))
        having count(*) > 0
    ), placed as (
        select a.*
        from now, inturn.append(
            now.ids, now.queues, now.keys, now.kinds, now.payloads, now.priorities, now.rounds,
            now.attempts, now.timeouts, now.sinces, v_now) a
    )
    select j.n, j.id, coalesce(p.lane, l.lane), coalesce(p.position, l.position), not j.fresh
    from unnest(v_ids, v_fresh) with ordinality as j(id, fresh, n)
    left join placed p on p.id = j.id
    left join lateral (
        select o.lane, o.position from inturn.job o where not j.fresh and o.id = j.id limit 1
    ) l on true
    order by j.n;
end $$;
