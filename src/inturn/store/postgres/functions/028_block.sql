-- Set aside the jobs of a batch that wait for others; return their ids. A dependency that is done
-- is satisfied; one that is not there, or was cancelled, would never be: an error, and nothing is
-- stored. A wait for a job of an earlier batch is "fresh": a settle that was under way may not have
-- seen it, see admit. Of this batch nothing can be settled before all of it is there.
create or replace function inturn.block(
    p_ids uuid[], p_now_ids uuid[], p_fresh boolean[],
    p_queues text[], p_keys text[], p_kinds text[], p_payloads text[],
    p_priorities integer[], p_rounds integer[], p_attempts integer[], p_timeouts double precision[],
    p_waits_job uuid[], p_waits_on uuid[], p_now timestamptz
) returns uuid[] language plpgsql
set enable_seqscan = off set enable_hashjoin = on set enable_mergejoin = on as $$
#variable_conflict use_column
declare
    v_jobs uuid[];
    v_ons uuid[];
    v_states text[];
    v_missing uuid[];
    v_cancelled uuid[];
    v_waiting uuid[];
begin
    select array_agg(s.job), array_agg(s.on_job), array_agg(s.state)
    into v_jobs, v_ons, v_states
    from (
        select distinct
            w.job,
            coalesce(d.now_id, w.on_job) as on_job,
            case
                when coalesce(f.fresh, false) then 'of this batch'
                else inturn.state(coalesce(d.now_id, w.on_job), p_now)
            end as state
        from unnest(p_waits_job, p_waits_on) as w(job, on_job)
        join unnest(p_ids, p_fresh) as j(id, fresh) on j.id = w.job and j.fresh
        left join unnest(p_ids, p_now_ids) as d(id, now_id) on d.id = w.on_job
        -- A duplicate's first job may come with the same batch.
        left join unnest(p_ids, p_fresh) as f(id, fresh) on f.id = coalesce(d.now_id, w.on_job)
    ) s;
    select
        coalesce(array_agg(distinct w.on_job) filter (where w.state is null), '{}'),
        coalesce(array_agg(distinct w.on_job) filter (where w.state = 'cancelled'), '{}')
    into v_missing, v_cancelled
    from unnest(v_ons, v_states) as w(on_job, state);
    if cardinality(v_missing || v_cancelled) > 0 then
        raise exception 'after names jobs that are not in this store (%) or were cancelled (%)',
            array_to_string(v_missing, ', ', 'none'), array_to_string(v_cancelled, ', ', 'none')
        using errcode = 'IT004',
            detail = jsonb_build_object('missing', v_missing, 'cancelled', v_cancelled)::text,
            hint = 'Submit them first, or leave them out of after.';
    end if;
    with waiting as (
        insert into inturn.waits (on_job, job, fresh)
        select w.on_job, w.job, w.state <> 'of this batch'
        from unnest(v_jobs, v_ons, v_states) as w(job, on_job, state)
        where w.state <> 'done'
        returning job
    )
    select coalesce(array_agg(distinct job), '{}') into v_waiting from waiting;
    insert into inturn.blocked (
        id, queue, key, kind, payload, priority, round,
        attempts_max, timeout_seconds, enqueued_at)
    select
        j.id, j.queue, j.key, j.kind, j.payload, j.priority, j.round,
        j.attempts, j.timeout, p_now
    from unnest(
        p_ids, p_queues, p_keys, p_kinds, p_payloads, p_priorities, p_rounds,
        p_attempts, p_timeouts
    ) as j(id, queue, key, kind, payload, priority, round, attempts, timeout)
    where j.id in (select unnest(v_waiting));
    return v_waiting;
end $$;
