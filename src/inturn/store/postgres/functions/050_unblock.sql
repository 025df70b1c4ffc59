-- The jobs that wait for some that are being settled, locked in the order of their ids, so that of
-- two settles the later one sees what the other deletes.
--
-- A settle has them right behind its leases, before it tries a tail: they may be in the hands of a
-- longer transaction that has settled, too, and that enqueues next.
create or replace function inturn.hold_waiting(p_jobs uuid[]) returns uuid[] language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_bitmapscan = off set plan_cache_mode = force_generic_plan as $$
declare
    -- Written as a range of the primary key: with many jobs waiting for one other, statistics would
    -- have the planner read all of them for each job that nobody waits for.
    v_waiting uuid[] := array(
        select w.job
        from unnest(p_jobs) d
        cross join lateral (
            select job from inturn.waits
            where (on_job, job) >= (d, '00000000-0000-0000-0000-000000000000'::uuid)
              and (on_job, job) <= (d, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
        ) w);
begin
    if cardinality(v_waiting) > 0 then
        perform from inturn.blocked where id = any(v_waiting) order by id for update;
    end if;
    return v_waiting;
end $$;

-- Jobs are done: those that waited for them, which are locked, and for nothing else, may join their
-- lanes. (One that came after these were locked is fresh: see admit.)
create or replace function inturn.unblock(
    p_done uuid[], p_waiting uuid[], p_now timestamptz
) returns void language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_bitmapscan = off set plan_cache_mode = force_generic_plan as $$
begin
    delete from inturn.waits where on_job = any(p_done);
    perform inturn.join_lanes(p_waiting, p_now);
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
