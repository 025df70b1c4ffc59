-- Accept jobs, all or none: dedupe, dependencies and bounds first, then each to its place.
-- p_waits_job[i] waits for p_waits_on[i]: for its failure if the job is one of p_reactions. Returns
-- a ticket for each job, in the given order. p_soon: as for accept_plain.
create or replace function inturn.accept(
    p_ids uuid[], p_queues text[], p_keys text[], p_kinds text[], p_payloads text[],
    p_priorities integer[], p_rounds integer[], p_attempts integer[], p_timeouts double precision[],
    p_delays double precision[], p_dedupes text[], p_dedupe_seconds double precision[],
    p_waits_job uuid[], p_waits_on uuid[], p_reactions uuid[], p_now timestamptz,
    p_soon boolean default false
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
    if p_soon then
        perform set_config('lock_timeout', '20ms', true);
    end if;
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
            p_attempts, p_timeouts, p_waits_job, p_waits_on, p_reactions, v_now);
    end if;
    perform inturn.check_bounds(p_queues, p_keys, (
        select array_agg(f::integer order by n) from unnest(v_fresh) with ordinality as f(f, n)));

    if cardinality(p_waits_job) > 0 or 0 < any(p_delays) then
        perform inturn.make_queues(p_queues);
    end if;
    insert into inturn.parked (whole_job, delayed, run_at)
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

-- Refuse ids under which a job is set aside already. In the log they are unique by themselves, but
-- a job outlives its row there when it is parked, dead or cancelled and history is pruned.
create or replace function inturn.check_new(p_ids uuid[]) returns void language plpgsql as $$
begin
    if exists (select from inturn.parked where id = any(p_ids))
        or exists (select from inturn.blocked where id = any(p_ids))
        or exists (select from inturn.dead where id = any(p_ids))
        or exists (select from inturn.cancelled where id = any(p_ids))
    then
        raise exception 'a job of this batch is in the store already'
        using errcode = 'unique_violation';
    end if;
end $$;

-- Make queues that are not there yet. At "repeatable read" and above one may have been made since
-- the snapshot: then it is there all the same, with the settings that every new queue has.
create or replace function inturn.make_queues(p_names text[]) returns void language plpgsql as $$
declare
    v_name text;
begin
    for v_name in
        select distinct n from unnest(p_names) n
        where not exists (select from inturn.queue q where q.name = n)
        order by n
    loop
        begin
            insert into inturn.queue (name) values (v_name) on conflict do nothing;
        exception when serialization_failure then
            null;
        end;
    end loop;
end $$;

-- What identifies a job's content: a digest of canonical JSON (jsonb sorts keys and drops spaces).
-- A number that jsonb cannot hold, such as 1e-20000, makes it the digest of the text as it is.
create or replace function inturn.digest(p_kind text, p_key text, p_payload text) returns bytea
language plpgsql immutable parallel safe as $$
begin
    return sha256(convert_to(jsonb_build_array(p_kind, p_key, p_payload::jsonb)::text, 'UTF8'));
exception when numeric_value_out_of_range then
    return sha256(convert_to(jsonb_build_array(p_kind, p_key, p_payload)::text, 'UTF8'));
end $$;

-- The job that a dedupe key stands for while its window lasts: the given one if the key is new.
-- Two producers of one key: the second waits for the first to commit, and then sees it.
create or replace function inturn.dedupe(
    p_queue text, p_dedupe text, p_job uuid, p_digest bytea,
    p_seconds double precision, p_now timestamptz
) returns uuid language plpgsql as $$
declare
    v_found inturn.dedupe;
begin
    loop
        insert into inturn.dedupe (queue, dedupe, job, digest, until)
        values (p_queue, p_dedupe, p_job, p_digest, p_now + make_interval(secs => p_seconds))
        on conflict (queue, dedupe) do update
            set job = excluded.job, digest = excluded.digest, until = excluded.until
            where dedupe.until <= p_now
        returning * into v_found;
        if found then
            return p_job;
        end if;
        select * into v_found from inturn.dedupe where queue = p_queue and dedupe = p_dedupe;
        continue when not found;
        if v_found.digest <> p_digest then
            raise exception 'dedupe key % of queue % stands for another job', p_dedupe, p_queue
            using errcode = 'IT002', detail = jsonb_build_object(
                'queue', p_queue, 'dedupe', p_dedupe, 'job', v_found.job
            )::text;
        end if;
        return v_found.job;
    end loop;
end $$;

-- Set aside the jobs of a batch that wait for others; return their ids. A dependency that is done
-- is satisfied; one that is not there, or was cancelled, would never be: an error, and nothing is
-- stored. A wait for a job of an earlier batch is "fresh": a settle that was under way may not have
-- seen it, see recheck. Of this batch nothing can be settled before all of it is there.
--
-- A reaction (p_reactions) does not wait if one of its dependencies has failed already, and is
-- cancelled if all of them are done.
create or replace function inturn.block(
    p_ids uuid[], p_now_ids uuid[], p_fresh boolean[],
    p_queues text[], p_keys text[], p_kinds text[], p_payloads text[],
    p_priorities integer[], p_rounds integer[], p_attempts integer[], p_timeouts double precision[],
    p_waits_job uuid[], p_waits_on uuid[], p_reactions uuid[], p_now timestamptz
) returns uuid[] language plpgsql
set enable_seqscan = off set enable_hashjoin = on set enable_mergejoin = on as $$
#variable_conflict use_column
declare
    v_others uuid[];  -- what is waited for and not of this batch
    v_jobs uuid[];
    v_ons uuid[];
    v_states text[];
    v_failures boolean[];  -- whether the wait is for a failure
    v_missing uuid[];
    v_cancelled uuid[];
    v_failed uuid[];  -- reactions to what has failed already …
    v_spared uuid[];  -- … and to what never will
    v_waiting uuid[];
begin
    v_others := array(
        select coalesce(d.now_id, w.on_job)
        from (select distinct on_job from unnest(p_waits_on) w(on_job)) w
        left join unnest(p_ids, p_now_ids) as d(id, now_id) on d.id = w.on_job
        left join unnest(p_ids, p_fresh) as f(id, fresh) on f.id = coalesce(d.now_id, w.on_job)
        where not coalesce(f.fresh, false));
    select array_agg(s.job), array_agg(s.on_job), array_agg(s.state), array_agg(s.on_failure)
    into v_jobs, v_ons, v_states, v_failures
    from (
        select distinct
            w.job,
            coalesce(d.now_id, w.on_job) as on_job,
            case
                when coalesce(f.fresh, false) then 'of this batch'
                else o.state
            end as state,
            r.job is not null as on_failure
        from unnest(p_waits_job, p_waits_on) as w(job, on_job)
        join unnest(p_ids, p_fresh) as j(id, fresh) on j.id = w.job and j.fresh
        left join unnest(p_ids, p_now_ids) as d(id, now_id) on d.id = w.on_job
        -- A duplicate's first job may come with the same batch.
        left join unnest(p_ids, p_fresh) as f(id, fresh) on f.id = coalesce(d.now_id, w.on_job)
        left join inturn.states(v_others, p_now) as o on o.job = coalesce(d.now_id, w.on_job)
        left join unnest(p_reactions) as r(job) on r.job = w.job
    ) s;
    select
        coalesce(array_agg(distinct w.on_job) filter (where w.state is null), '{}'),
        coalesce(array_agg(distinct w.on_job)
                 filter (where w.state = 'cancelled' and not w.on_failure), '{}'),
        coalesce(array_agg(distinct w.job)
                 filter (where w.state in ('dead', 'cancelled') and w.on_failure), '{}')
    into v_missing, v_cancelled, v_failed
    from unnest(v_jobs, v_ons, v_states, v_failures) as w(job, on_job, state, on_failure);
    if cardinality(v_missing || v_cancelled) > 0 then
        raise exception 'after names jobs that are not in this store (%) or were cancelled (%)',
            array_to_string(v_missing, ', ', 'none'), array_to_string(v_cancelled, ', ', 'none')
        using errcode = 'IT004',
            detail = jsonb_build_object('missing', v_missing, 'cancelled', v_cancelled)::text,
            hint = 'Submit them first, or leave them out of after.';
    end if;
    with waiting as (
        insert into inturn.waits (on_job, job, fresh, on_failure)
        select w.on_job, w.job, w.state <> 'of this batch', w.on_failure
        from unnest(v_jobs, v_ons, v_states, v_failures) as w(job, on_job, state, on_failure)
        where w.state <> 'done' and w.job not in (select unnest(v_failed))
        returning job
    )
    select coalesce(array_agg(distinct job), '{}') into v_waiting from waiting;
    if true = any(v_failures) then
        v_spared := array(
            select w.job from unnest(v_jobs, v_failures) as w(job, on_failure) where w.on_failure
            except select unnest(v_waiting)
            except select unnest(v_failed));
        v_waiting := v_waiting || v_spared;
    end if;
    insert into inturn.blocked (whole_job)
    select
        j.id, j.queue, j.key, j.kind, j.payload, j.priority, j.round,
        j.attempts, j.timeout, p_now
    from unnest(
        p_ids, p_queues, p_keys, p_kinds, p_payloads, p_priorities, p_rounds,
        p_attempts, p_timeouts
    ) as j(id, queue, key, kind, payload, priority, round, attempts, timeout)
    where j.id in (select unnest(v_waiting));
    if cardinality(v_spared) > 0 then
        perform inturn.spare(v_spared, p_now);
    end if;
    return v_waiting;
end $$;
