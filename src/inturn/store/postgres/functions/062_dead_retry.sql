-- Put a dead letter back with fresh attempts; false when it is not dead (any more).
create or replace function inturn.dead_retry(p_job uuid, p_now timestamptz) returns boolean
language plpgsql as $$
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    d inturn.dead;
begin
    d := inturn.lock_dead(p_job);
    if d.id is null then
        return false;
    end if;
    if exists (
        select from inturn.lane where id = inturn.lane_of(d.queue, d.key) and halted_job = p_job
    ) then
        perform inturn.decide_lane(d.queue, d.key, 'retry', '', v_now);
        return true;
    end if;
    delete from inturn.dead where id = p_job;
    delete from inturn.job where id = p_job;
    perform inturn.append(
        array[d.id], array[d.queue], array[d.key], array[d.kind], array[d.payload::text],
        array[d.priority::integer], array[d.round], array[d.attempts_max::integer],
        array[d.timeout_seconds], array[d.enqueued_at], v_now);
    perform pg_notify('inturn', d.queue);
    return true;
end $$;

-- Cancel a dead letter for good; false when it is not dead (any more). A lane halted on it goes on.
create or replace function inturn.dead_drop(
    p_job uuid, p_by text, p_now timestamptz
) returns boolean language plpgsql as $$
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    d inturn.dead;
begin
    d := inturn.lock_dead(p_job);
    if d.id is null then
        return false;
    end if;
    if exists (
        select from inturn.lane where id = inturn.lane_of(d.queue, d.key) and halted_job = p_job
    ) then
        perform inturn.decide_lane(d.queue, d.key, 'drop', p_by, v_now);
    else
        perform inturn.drop_dead(p_job, p_by, v_now);
    end if;
    return true;
end $$;

-- Dead letters in the order of their lanes, in which everyone locks tails.
create or replace function inturn.by_lane(p_jobs uuid[]) returns setof uuid
language sql stable as $$
    select d.id
    from unnest(p_jobs) as d(id)
    left join inturn.dead x on x.id = d.id
    left join inturn.tail t on t.queue = x.queue and t.key = x.key
    order by t.lane, d.id
    offset 0
$$;

-- A dead letter, locked together with its lane if it has one: the tail, then the lane, then the
-- dead letter, the order in which everyone locks them.
create or replace function inturn.lock_dead(p_job uuid) returns inturn.dead language plpgsql as $$
declare
    d inturn.dead;
begin
    perform from inturn.tail t
    where t.lane = (select inturn.lane_of(x.queue, x.key) from inturn.dead x where x.id = p_job)
    for update;
    perform from inturn.lane l
    where l.id = (select inturn.lane_of(x.queue, x.key) from inturn.dead x where x.id = p_job)
    for update;
    select * into d from inturn.dead where id = p_job for update;
    return d;
end $$;
