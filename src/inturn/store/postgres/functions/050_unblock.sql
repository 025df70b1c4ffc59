-- The jobs that wait for some that are being settled, and for which, in the order of the settled;
-- locked in the order of their ids, so that of two settles the later one sees what the other
-- deletes. Up to 1001 pairs: see unblock.
--
-- A settle has them right behind its leases, before it tries a tail: they may be in the hands of a
-- longer transaction that has settled, too, and that enqueues next.
create or replace function inturn.hold_waiting(p_done uuid[], out ons uuid[], out jobs uuid[])
language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_bitmapscan = off set plan_cache_mode = force_generic_plan as $$
begin
    -- Written as a range of the primary key: with many jobs waiting for one other, statistics would
    -- have the planner read all of them for each job that nobody waits for.
    select array_agg(w.on_job), array_agg(w.job) into ons, jobs
    from (
        select w.on_job, w.job
        from unnest(p_done) d
        cross join lateral (
            select on_job, job from inturn.waits
            where (on_job, job) >= (d, '00000000-0000-0000-0000-000000000000'::uuid)
              and (on_job, job) <= (d, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
            order by on_job, job
            limit 1001
        ) w
        limit 1001
    ) w;
    if jobs is not null then
        perform from inturn.blocked where id = any(jobs) order by id for update;
    end if;
end $$;

-- Jobs are done: those that waited for them, which are locked, and for nothing else, may join their
-- lanes. Only their waits are taken away: one that came after they were locked is fresh. Of more
-- than a thousand waits the rest is left for admit, so that no settle takes long.
create or replace function inturn.unblock(
    p_done uuid[], p_ons uuid[], p_jobs uuid[], p_now timestamptz
) returns void language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_bitmapscan = off set plan_cache_mode = force_generic_plan as $$
begin
    delete from inturn.waits w
    using unnest(p_ons[:1000], p_jobs[:1000]) p(on_job, job)
    where (w.on_job, w.job) >= (p.on_job, p.job) and (w.on_job, w.job) <= (p.on_job, p.job);
    perform inturn.join_lanes(p_jobs[:1000], p_now);
    if cardinality(p_jobs) > 1000 then
        insert into inturn.admitting (job)
        select d from unnest(p_done) d
        where exists (select from inturn.waits w where w.on_job = d)
        order by d
        on conflict do nothing;
    end if;
end $$;

-- Let blocked jobs that wait for nothing any more join their lanes: by way of parked, as due at
-- once; and from there now, or with a later claim if a producer's open transaction holds the lane's
-- tail, for a settle must not wait for that.
create or replace function inturn.join_lanes(p_jobs uuid[], p_now timestamptz) returns void
language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_bitmapscan = off set plan_cache_mode = force_generic_plan as $$
declare
    v_woken text[];
begin
    with free as (
        delete from inturn.blocked b
        where b.id = any(p_jobs)
          and not exists (select from inturn.waits w where w.job = b.id)
        returning *
    ), joined as (
        insert into inturn.parked (
            id, queue, key, kind, payload, priority, round,
            attempts_max, timeout_seconds, enqueued_at,
            delayed, run_at)
        select
            id, queue, key, kind, payload, priority, round,
            attempts_max, timeout_seconds, enqueued_at,
            true, p_now
        from free
        returning queue
    )
    select array_agg(distinct queue) into v_woken from joined;
    if v_woken is null then
        return;
    end if;
    -- At other isolation levels a tail that has moved could not be locked. And a longer transaction
    -- would hold it until its commit: two that each settle and then enqueue into a lane that the
    -- other's dependents joined would wait for each other.
    if current_setting('transaction_isolation') = 'read committed' and not inturn.within() then
        perform inturn.promote(q, p_now, 1000) from unnest(v_woken) q;
    end if;
    perform pg_notify('inturn', q) from unnest(v_woken) q;
end $$;

-- A job will never be done: those that wait for it are buried with the reason. Their own dependents
-- stay blocked, for a dead letter can be retried.
--
-- Its caller holds a lane, or other jobs that wait, for which a settle may wait. So these are only
-- tried: with one of them in a settle's hands, the call is undone, and the store tries it again.
create or replace function inturn.forsake(
    p_job uuid, p_reason text, p_now timestamptz
) returns void language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_bitmapscan = off set plan_cache_mode = force_generic_plan as $$
declare
    v_jobs uuid[] := array(select job from inturn.waits where on_job = p_job);
    v_held uuid[];
begin
    if cardinality(v_jobs) = 0 then
        return;
    end if;
    v_held := array(select id from inturn.blocked where id = any(v_jobs) for update skip locked);
    if cardinality(v_held) < (select count(*) from inturn.blocked where id = any(v_jobs)) then
        raise exception 'what waits for job % is in the hands of others', p_job
        using errcode = 'serialization_failure', hint = 'Try again.';
    end if;
    perform inturn.bury_blocked(v_held, p_reason, p_now);
end $$;

-- Bury blocked jobs, whose rows are locked.
create or replace function inturn.bury_blocked(
    p_jobs uuid[], p_reason text, p_now timestamptz
) returns void language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_bitmapscan = off set plan_cache_mode = force_generic_plan as $$
begin
    with gone as (
        delete from inturn.blocked b where b.id = any(p_jobs) returning *
    )
    insert into inturn.dead (
        id, queue, key, kind, payload, priority, round,
        attempts_max, timeout_seconds, enqueued_at,
        attempts, errors, reason, died_at)
    select
        id, queue, key, kind, payload, priority, round,
        attempts_max, timeout_seconds, enqueued_at,
        0, '[]', p_reason, p_now
    from gone;
    delete from inturn.waits where job = any(p_jobs);
end $$;
