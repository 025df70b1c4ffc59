-- Jobs are done: those that waited for them, and for nothing else, go to parked as due at once and
-- from there to their lanes: now, or with a later claim if a producer's open transaction holds the
-- lane's tail, for a settle must not wait for that.
create or replace function inturn.unblock(p_done uuid[], p_now timestamptz) returns void
language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
    set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan as $$
declare
    v_jobs uuid[];
    v_woken text[];
begin
    -- Lock the dependents, in order, so that of two settles the later one sees the other's delete.
    perform from inturn.blocked where id in (select job from inturn.waits
        where on_job = any(p_done)) order by id for update;
    with gone as (
        delete from inturn.waits where on_job = any(p_done) returning job
    )
    select array_agg(distinct job) into v_jobs from gone;
    if v_jobs is null then
        return;
    end if;
    with free as (
        delete from inturn.blocked b where b.id = any(v_jobs)
            and not exists (select from inturn.waits w where w.job = b.id)
        returning *
    ), joined as (
        insert into inturn.parked (id, queue, key, kind, payload, priority, round, attempts_max,
            timeout_seconds,
                                   enqueued_at, delayed, run_at)
        select id, queue, key, kind, payload, priority, round, attempts_max, timeout_seconds,
            enqueued_at, true, p_now
        from free returning queue
    )
    select array_agg(distinct queue) into v_woken from joined;
    if v_woken is not null then
        -- Into their lanes at once where no producer's open transaction is in the way. (At other
        -- isolation levels a tail that has moved could not be locked.)
        if current_setting('transaction_isolation') = 'read committed' then
            perform inturn.promote(q, p_now, 1000) from unnest(v_woken) q;
        end if;
        perform pg_notify('inturn', q) from unnest(v_woken) q;
    end if;
end $$;

-- A job will never be done: those that wait for it are buried with the reason. Their own dependents
-- stay blocked, for a dead letter can be retried.
create or replace function inturn.forsake(p_job uuid, p_reason text, p_now timestamptz) returns void
language plpgsql as $$
begin
    perform from inturn.blocked where id in (select job from inturn.waits where on_job = p_job)
        order by id for update;
    with gone as (
        delete from inturn.blocked b where b.id in (select w.job from inturn.waits w
            where w.on_job = p_job) returning *
    ), buried as (
        insert into inturn.dead (id, queue, key, kind, payload, priority, round, attempts_max,
            timeout_seconds, enqueued_at,
                                 attempts, errors, reason, died_at)
        select id, queue, key, kind, payload, priority, round, attempts_max, timeout_seconds,
            enqueued_at, 0, '[]',
               p_reason, p_now
        from gone returning id
    )
    delete from inturn.waits w using buried b where w.job = b.id;
end $$;
