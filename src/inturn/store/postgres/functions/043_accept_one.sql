-- Accept one job that has no dedupe key, waits for nothing and is not delayed, in a few short
-- statements: the way of inturn.accept_plain for a lane that is there, in less than half its time.
-- Returns the lane and the position.
--
-- p_unsent: no store has seen the id before, so that nobody need look for it.
--
-- Right as inturn.reserve is: the position is given under the tail's lock, kept until commit, and
-- the lane is looked at by a later statement. What needs more (a new lane, a bounded queue, an id
-- that is known) is left to inturn.accept_plain.
--
-- It has fewer settings than the others to keep its plans as they are, for it joins nothing and
-- looks up one row at a time: setting all five took 4 % of a call. It asks as few questions as it
-- can, for each costs some 2,000 instructions, and finds a row that it has locked by its ctid.
create or replace function inturn.accept_one(
    p_id uuid, p_queue text, p_key text, p_kind text, p_payload text, p_priority integer,
    p_round integer, p_attempts integer, p_timeout double precision, p_now timestamptz,
    p_unsent boolean default false
) returns bigint[] language plpgsql
set enable_seqscan = off set plan_cache_mode = force_generic_plan as $$
declare
    v_at timestamptz;
    v_lane bigint;
    v_last bigint;
    v_round integer;
    v_rests boolean;
    v_bounded boolean;
begin
    if not p_unsent then
        perform inturn.check_new(array[p_id]);
    end if;
    if p_key is not null then
        update inturn.tail t set last = t.last + 1, round = greatest(t.round, p_round)
        where t.queue = p_queue and t.key = p_key
        returning t.lane, t.last, t.round into v_lane, v_last, v_round;
    elsif current_setting('transaction_isolation') = 'read committed' then
        v_lane := inturn.free_open_lane(p_queue, p_kind, p_priority, p_round, '{}');
        update inturn.tail t set last = t.last + 1
        where t.lane = v_lane
        returning t.last, t.round into v_last, v_round;
    end if;
    if v_last is null then
        return inturn.accept_first(
            p_id, p_queue, p_key, p_kind, p_payload, p_priority, p_round, p_attempts,
            p_timeout, p_now);
    end if;
    select
        not l.active or (l.token is null and l.cursor >= v_last),
        exists (
            select from inturn.queue q
            where q.name = p_queue and num_nonnulls(q.depth_max, q.lane_depth_max) > 0)
    into v_rests, v_bounded
    from inturn.lane l where l.id = v_lane;
    if v_bounded then
        update inturn.tail t set last = t.last - 1 where t.lane = v_lane;  -- to be taken again
        return inturn.accept_first(
            p_id, p_queue, p_key, p_kind, p_payload, p_priority, p_round, p_attempts, p_timeout,
            p_now);
    end if;
    v_at := coalesce(p_now, clock_timestamp());
    insert into inturn.job (
        lane, position, id, kind, payload, priority, round,
        attempts_max, timeout_seconds, enqueued_at)
    values (
        v_lane, v_last, p_id, p_kind, p_payload, p_priority, v_round,
        p_attempts, p_timeout, v_at);
    if v_rests then
        perform inturn.rouse(
            array[v_lane], array[1], array[v_last - 1], array[p_kind], array[p_priority],
            array[p_round], array[v_round], null, v_at);
    end if;
    return array[v_lane, v_last];
end $$;

-- Accept one job by the way of several, which makes lanes and looks at bounds.
create or replace function inturn.accept_first(
    p_id uuid, p_queue text, p_key text, p_kind text, p_payload text, p_priority integer,
    p_round integer, p_attempts integer, p_timeout double precision, p_now timestamptz
) returns bigint[] language sql as $$
    select array[r.lanes[1], r.befores[1] + 1]
    from inturn.accept_plain(
        array[p_queue], array[p_key], array[p_kind], array[p_priority], array[p_round],
        array[p_round], array[1], array[p_id], p_payload, array[p_kind],
        array[p_priority], array[p_round], array[p_attempts], array[p_timeout], p_now) r
$$;
