-- Accept jobs that have no dedupe key, wait for nothing and are not delayed, in one statement:
-- reserve positions for groups of jobs, one group a lane, and append the jobs to the log.
--
-- The jobs come group after group, in their order within each: p_ids, and p_payloads as one text
-- with the character U+001E between them, which no JSON text holds. Their other columns are arrays
-- of one when all jobs are alike. In a keyed lane a job's round is at least that of the job before
-- it; the caller has seen to that within the batch. Returns, a group each, the lane and the
-- position before its first job.
--
-- p_soon: the jobs are of several producers, so it gives up soon: a tail that somebody's open
-- transaction holds may hold up the producers of its own key, and no others. Whoever is
-- refused sends each producer's jobs by themselves.
create or replace function inturn.accept_plain(
    p_queues text[], p_keys text[], p_kinds text[], p_priorities integer[], p_rounds integer[],
    p_rounds_last integer[], p_counts integer[],
    p_ids uuid[], p_payloads text, p_job_kinds text[], p_job_priorities integer[],
    p_job_rounds integer[], p_job_attempts integer[], p_job_timeouts double precision[],
    p_now timestamptz, p_soon boolean default false,
    out lanes bigint[], out befores bigint[]
) language plpgsql set plans = by_index as $$
#variable_conflict use_column
declare
    r record;  -- what was reserved
    v record;  -- the same, job by job
    v_at timestamptz;
begin
    if p_soon then
        perform set_config('lock_timeout', '20ms', true);
    end if;
    perform inturn.check_new(p_ids);
    r := inturn.reserve(
        p_queues, p_keys, p_kinds, p_priorities, p_rounds, p_rounds_last, p_counts, null, p_now,
        true);
    lanes := r.lanes;
    befores := r.befores;
    v_at := r.at;
    select
        array_agg(g.lane) as lanes, array_agg(g.before + k) as positions,
        array_agg(g.floor) as floors
    into v
    from unnest(r.lanes, r.befores, r.floors, inturn.spread(p_counts, cardinality(p_keys)))
        as g(lane, before, floor, count)
    cross join generate_series(1, g.count) k;
    insert into inturn.job (
        lane, position, id, kind, payload, priority, round,
        attempts_max, timeout_seconds, enqueued_at)
    select
        j.lane, j.position, j.id,
        p_job_kinds[least(j.n, cardinality(p_job_kinds))],
        j.payload,
        p_job_priorities[least(j.n, cardinality(p_job_priorities))],
        greatest(j.floor, p_job_rounds[least(j.n, cardinality(p_job_rounds))]),
        p_job_attempts[least(j.n, cardinality(p_job_attempts))],
        p_job_timeouts[least(j.n, cardinality(p_job_timeouts))],
        v_at
    from unnest(p_ids, string_to_array(p_payloads, E'\x1e'), v.lanes, v.positions, v.floors)
        with ordinality as j(id, payload, lane, position, floor, n);
end $$;

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
