-- Cancel a job that is not running; return the state it has now, or null if there is no such job.
create or replace function inturn.cancel(p_job uuid, p_by text, p_now timestamptz) returns text
language plpgsql as $$
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    v_reason text := format('cancelled by %s', p_by);
    v_lane bigint;
    v_position bigint;
    l inturn.lane;
    v_state text;
begin
    -- Lock what holds the job before looking at its state.
    perform from inturn.blocked where id = p_job for update;
    perform from inturn.parked where id = p_job for update;
    select lane, position into v_lane, v_position from inturn.job where id = p_job;
    if found then
        select * into l from inturn.lane where id = v_lane for update;
    end if;
    v_state := inturn.state(p_job, v_now);
    if v_state is null or v_state in ('running', 'done', 'dead', 'cancelled') then
        return v_state;
    end if;
    with gone as (
        delete from inturn.blocked where id = p_job returning *
    ), unparked as (
        delete from inturn.parked where id = p_job returning *
    ), found as (
        select
            id, queue, key, kind, payload, priority, round,
            attempts_max, timeout_seconds, enqueued_at,
            null::bigint as lane, null::bigint as position
        from gone
        union all
        select
            id, queue, key, kind, payload, priority, round,
            attempts_max, timeout_seconds, enqueued_at,
            null, null
        from unparked
        union all
        select
            id, queue, key, kind, payload, priority, round,
            attempts_max, timeout_seconds, enqueued_at,
            lane, position
        from inturn.log
        where id = p_job
    )
    insert into inturn.cancelled (
        id, queue, key, kind, payload, priority, round,
        attempts_max, timeout_seconds, enqueued_at,
        lane, position, cancelled_at, cancelled_by, reason)
    select
        id, queue, key, kind, payload, priority, round,
        attempts_max, timeout_seconds, enqueued_at,
        lane, position, v_now, p_by, v_reason
    from found
    order by lane nulls first
    limit 1;
    delete from inturn.waits where job = p_job;
    update inturn.lane set cancelled_last = v_position
    where id = l.id and cancelled_last < v_position;
    if l.id is not null and v_position = l.cursor and l.token is null and l.halted_at is null then
        perform inturn.pass(l.id, null);
        perform inturn.freshen(array[l.id], v_now);
    end if;
    perform inturn.forsake(p_job, format('waits for job %s, which was %s', p_job, v_reason), v_now);
    return 'cancelled';
end $$;
