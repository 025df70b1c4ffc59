-- Decide about a halted lane: retry its head in place, skip it, or drop it for good. Returns the
-- job's id; null when the lane is not halted (on p_job, if that is given); raises IT006 when there
-- is no such lane.
create or replace function inturn.decide_lane(
    p_queue text, p_key text, p_decision text, p_by text, p_now timestamptz,
    p_job uuid default null
) returns uuid language plpgsql as $$
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    l inturn.lane;
begin
    select * into l from inturn.lane where id = inturn.lane_of(p_queue, p_key) for update;
    if not found then
        raise exception 'queue % has no lane %', p_queue, p_key using errcode = 'IT006';
    end if;
    if l.halted_at is null or l.halted_job <> p_job then
        return null;
    end if;
    update inturn.lane set halted_at = null, halted_job = null where id = l.id;
    if p_decision = 'retry' then
        delete from inturn.dead where id = l.halted_job;
        perform inturn.give_back(l.id, l.head, 0, 0, null, v_now, v_now);
    else
        if p_decision = 'drop' then
            perform inturn.drop_dead(l.halted_job, p_by, v_now);
        end if;
        perform inturn.pass(l.id, l.head);
        perform inturn.freshen(array[l.id], v_now);
    end if;
    perform pg_notify('inturn', p_queue);
    return l.halted_job;
end $$;

-- Cancel a dead letter for good; those that wait for it are buried with the reason.
create or replace function inturn.drop_dead(p_job uuid, p_by text, p_now timestamptz) returns void
language plpgsql as $$
begin
    with gone as (
        delete from inturn.dead where id = p_job returning *
    )
    insert into inturn.cancelled (
        id, queue, key, kind, payload, priority, round,
        attempts_max, timeout_seconds, enqueued_at,
        cancelled_at, cancelled_by, reason)
    select
        id, queue, key, kind, payload, priority, round,
        attempts_max, timeout_seconds, enqueued_at,
        p_now, p_by, format('dropped by %s', p_by)
    from gone;
    perform inturn.forsake(
        p_job, format('waits for job %s, which was dropped by %s', p_job, p_by), p_now);
end $$;

-- Hold one keyed lane in the name of p_by, or let it go on when that is null.
create or replace function inturn.pause_lane(
    p_queue text, p_key text, p_by text, p_now timestamptz
) returns void language plpgsql as $$
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    l inturn.lane;
begin
    select * into l from inturn.lane where id = inturn.lane_of(p_queue, p_key) for update;
    if not found then
        raise exception 'queue % has no lane %', p_queue, p_key using errcode = 'IT006';
    end if;
    if p_by is not null then
        update inturn.lane set paused_at = v_now, paused_by = p_by, rank_at = null where id = l.id;
        return;
    end if;
    update inturn.lane set paused_at = null, paused_by = null where id = l.id;
    if l.active and l.token is null and l.ready_at is null and l.halted_at is null then
        perform inturn.freshen(array[l.id], v_now);
        perform pg_notify('inturn', p_queue);
    end if;
end $$;
