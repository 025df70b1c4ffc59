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
        perform inturn.refresh(array[l.id], v_now);
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
    insert into inturn.cancelled (whole_job, cancelled_at, cancelled_by, reason)
    select whole_job, p_now, p_by, format('dropped by %s', p_by)
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
        perform inturn.refresh(array[l.id], v_now);
        perform pg_notify('inturn', p_queue);
    end if;
end $$;

-- Put a dead letter back with fresh attempts; false when it is not dead (any more).
create or replace function inturn.dead_retry(p_job uuid, p_now timestamptz) returns boolean
language plpgsql as $$
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    d inturn.dead;
begin
    d := inturn.take_dead(p_job, 'retry', '', v_now);
    if d.id is not null and d.queue is not null then
        delete from inturn.dead where id = p_job;
        delete from inturn.job where id = p_job;
        perform inturn.append(
            array[d.id], array[d.queue], array[d.key], array[d.kind], array[d.payload],
            array[d.priority::integer], array[d.round], array[d.attempts_max::integer],
            array[d.timeout_seconds], array[d.enqueued_at], v_now);
        perform pg_notify('inturn', d.queue);
    end if;
    return d.id is not null;
end $$;

-- Cancel a dead letter for good; false when it is not dead (any more). A lane halted on it goes on.
create or replace function inturn.dead_drop(
    p_job uuid, p_by text, p_now timestamptz
) returns boolean language plpgsql as $$
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    d inturn.dead;
begin
    d := inturn.take_dead(p_job, 'drop', p_by, v_now);
    if d.id is not null and d.queue is not null then
        perform inturn.drop_dead(p_job, p_by, v_now);
    end if;
    return d.id is not null;
end $$;

-- A dead letter, locked; or decided about already, if a lane is halted on it: then its id and no
-- more. Nothing at all when it is not dead.
--
-- A lane is locked only when it is halted on the letter, and then before it: whoever appends takes
-- a tail, then perhaps its lane, and who settles and then enqueues in one transaction holds a lane
-- and wants a tail. A letter's lane is halted on it from the moment it is dead, or never.
create or replace function inturn.take_dead(
    p_job uuid, p_decision text, p_by text, p_now timestamptz
) returns inturn.dead language plpgsql as $$
declare
    d inturn.dead;
begin
    loop
        select * into d from inturn.dead where id = p_job;
        exit when not found;
        if inturn.is_halted_on(d.queue, d.key, p_job) then
            if inturn.decide_lane(d.queue, d.key, p_decision, p_by, p_now, p_job) is not null then
                d := null;
                d.id := p_job;
                exit;
            end if;
        end if;
        select * into d from inturn.dead where id = p_job for update;
        -- It may have been retried, and have died again, since the look.
        exit when not found or not inturn.is_halted_on(d.queue, d.key, p_job);
    end loop;
    return d;
end $$;

create or replace function inturn.is_halted_on(
    p_queue text, p_key text, p_job uuid
) returns boolean language sql volatile as $$
    select exists (
        select from inturn.lane
        where id = inturn.lane_of(p_queue, p_key) and halted_job = p_job)
$$;

-- Dead letters in the order of their lanes, in which everyone locks tails; before them those whose
-- lane is gone, by its name: producers, too, make the lanes that are missing first. Lanes that are
-- halted on one of them are locked before the first of them is decided: whoever drops a letter goes
-- on to lock what waits for it, and a cancel has its lane by then.
create or replace function inturn.by_lane(p_jobs uuid[]) returns setof uuid
language plpgsql as $$
begin
    perform from inturn.lane l
    where l.id = any(array(
        select t.lane
        from inturn.dead x
        join inturn.tail t on t.queue = x.queue and t.key = x.key
        where x.id = any(p_jobs)
    )) and l.halted_job = any(p_jobs)
    order by l.id
    for update;
    return query
    select d.id
    from unnest(p_jobs) as d(id)
    left join inturn.dead x on x.id = d.id
    left join inturn.tail t on t.queue = x.queue and t.key = x.key
    order by t.lane nulls first, x.queue, x.key, d.id;
end $$;
