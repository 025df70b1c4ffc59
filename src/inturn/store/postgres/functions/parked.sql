-- Let delayed jobs that are due, and jobs whose wait is over, join their lanes.
--
-- A claim calls this, and a settle, and they wait for nobody: the jobs of a key whose tail or lane
-- is held by another transaction stay where they are until a later claim, and keep no others
-- waiting. All jobs of one key go together or not at all, in the order in which they became due.
create or replace function inturn.wake_parked(p_queue text, p_now timestamptz, p_jobs_max integer)
returns void language plpgsql set plans = by_index as $$
declare
    v_patience text := current_setting('lock_timeout');
    v_held text[] := '{}';  -- keys that have to wait
    v_free text[];
    v_known text[];
    v_key text;
    d record;
begin
    for v_turn in 1 .. 10 loop
        select
            array_agg(due.id) as ids,
            array_agg(due.key) as keys,
            array_agg(distinct due.key) filter (where due.key is not null) as wanted
        into d
        from (
            select p.id, p.key
            from inturn.parked p
            where p.queue = p_queue and p.delayed and p.run_at <= p_now
              and (p.key is null or p.key <> all(v_held))
            order by p.run_at, p.id
            limit p_jobs_max
            for update skip locked
        ) due;
        exit when d.ids is null;
        v_known := array(
            select t.key from inturn.tail t where t.queue = p_queue and t.key = any(d.wanted));
        v_free := inturn.free_keys(p_queue, v_known);
        perform inturn.move_due(array(
            select due.id from unnest(d.ids, d.keys) as due(id, key)
            where due.key is null or due.key = any(v_free)), p_now);
        v_held := v_held || array(select k from unnest(v_known) k where k <> all(v_free));
        -- A lane that is not there yet may be in someone's hands who is just making it.
        for v_key in select k from unnest(d.wanted) k where k <> all(v_known) loop
            begin
                perform set_config('lock_timeout', '20ms', true);
                perform inturn.move_due(array(
                    select due.id from unnest(d.ids, d.keys) as due(id, key)
                    where due.key = v_key), p_now);
            exception when lock_not_available then
                v_held := v_held || v_key;
            end;
            perform set_config('lock_timeout', v_patience, true);
        end loop;
        exit when cardinality(d.ids) < p_jobs_max;
    end loop;
end $$;

-- Those of some keys whose tail and lane nobody else holds; both are ours then. (A settle holds its
-- lanes, and may wait for a blocked job of which a claim just found that it waits no longer.)
create or replace function inturn.free_keys(p_queue text, p_keys text[]) returns text[]
language plpgsql set plans = by_index as $$
declare
    v_lanes bigint[];
begin
    v_lanes := array(
        select t.lane from inturn.tail t where t.queue = p_queue and t.key = any(p_keys)
        for update skip locked);
    return array(
        select l.key from inturn.lane l where l.id = any(v_lanes) for no key update skip locked);
end $$;

-- Take jobs out of parked and put them at the tails of their lanes, in the order they became due.
create or replace function inturn.move_due(p_ids uuid[], p_now timestamptz) returns void
language plpgsql set plans = by_index as $$
declare
    j record;
begin
    if cardinality(p_ids) = 0 then
        return;
    end if;
    with gone as (
        delete from inturn.parked p where p.id = any(p_ids) returning *
    )
    select
        array_agg(id) as ids, array_agg(queue) as queues, array_agg(key) as keys,
        array_agg(kind) as kinds, array_agg(payload) as payloads,
        array_agg(priority::integer) as priorities, array_agg(round) as rounds,
        array_agg(attempts_max::integer) as attempts, array_agg(timeout_seconds) as timeouts,
        array_agg(enqueued_at) as sinces
    into j
    from (select * from gone order by run_at, id) due;
    perform inturn.append(
        j.ids, j.queues, j.keys, j.kinds, j.payloads, j.priorities, j.rounds, j.attempts,
        j.timeouts, j.sinces, p_now);
end $$;
