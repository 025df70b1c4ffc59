-- Take positions for groups of jobs, one group a lane: make the lane if need be, lock its tail,
-- move it, wake the lane. Returns, in the order of the groups, the lane, the position before the
-- first, and the lowest round the lane allows; and the time. p_sinces: when each group's first job
-- was accepted; null means now. An array of one, other than of keys, stands for all groups.
--
-- Right because positions are given under the tail's lock, kept until commit: within a lane the
-- order of positions is the order of commits, so a cursor never passes a job that is not there yet.
-- Tails are locked in the order of lanes (as an index looks up an array), so two batches never wait
-- crosswise. No statement joins tables to the groups: a join planned while tables are young and
-- empty would walk them when they are not; what belongs to a lane is found by binary search.
-- A group without a key takes any lane of its kind whose tail is free, and adds one when all are
-- taken.
create or replace function inturn.reserve(
    p_queues text[], p_keys text[], p_kinds text[], p_priorities integer[], p_rounds integer[],
    p_rounds_last integer[], p_counts integer[], p_sinces timestamptz[], p_now timestamptz,
    p_bounded boolean,
    out lanes bigint[], out befores bigint[], out floors integer[], out at timestamptz
) language plpgsql set plans = by_index as $$
#variable_conflict use_column
declare
    v_groups integer := cardinality(p_keys);
    v_open boolean := false;
    v_missing boolean;
    v_sorted bigint[];   -- the lanes in their order …
    v_places integer[];  -- … and which group each belongs to
begin
    at := coalesce(p_now, clock_timestamp());
    p_queues := inturn.spread(p_queues, v_groups);
    p_kinds := inturn.spread(p_kinds, v_groups);
    p_priorities := inturn.spread(p_priorities, v_groups);
    p_rounds := inturn.spread(p_rounds, v_groups);
    p_rounds_last := inturn.spread(p_rounds_last, v_groups);
    p_counts := inturn.spread(p_counts, v_groups);
    if p_bounded then
        perform inturn.check_bounds(p_queues, p_keys, p_counts);
    end if;
    lanes := array_fill(null::bigint, array[v_groups]);
    loop
        if v_groups = 1 and p_keys[1] is not null then
            select array[t.lane] into lanes
            from inturn.tail t where t.queue = p_queues[1] and t.key = p_keys[1];
            v_missing := lanes is null;
        else
            select
                array_agg(coalesce(t.lane, lanes[g.n]) order by g.n),
                bool_or(t.lane is null and g.key is not null),
                bool_or(g.key is null)
            into lanes, v_missing, v_open
            from unnest(p_queues, p_keys) with ordinality as g(queue, key, n)
            left join lateral (
                select o.lane from inturn.tail o where o.queue = g.queue and o.key = g.key limit 1
            ) t on true;
        end if;
        if v_missing then
            perform inturn.make_queues(p_queues);
            with named as (
                select g.*, nextval('inturn.tail_lane_seq') as lane
                from (
                    select g.*
                    from unnest(p_queues, p_keys, p_kinds, p_priorities, p_rounds, p_sinces)
                        as g(queue, key, kind, priority, round, since)
                    where g.key is not null
                    order by g.queue, g.key
                ) g
                where not exists (
                    select from inturn.tail t where t.queue = g.queue and t.key = g.key)
            ), made as (
                insert into inturn.tail (lane, queue, key) overriding system value
                select n.lane, n.queue, n.key from named n
                on conflict (queue, key) where key is not null do nothing
                returning lane
            )
            insert into inturn.lane (
                id, queue, key, kind, priority, round, active, waiting_since, rank_at)
            select
                n.lane, n.queue, n.key, n.kind, n.priority, n.round, true, coalesce(n.since, at),
                inturn.rank(coalesce(n.since, at), n.priority, coalesce((
                    select q.aging_seconds from inturn.queue q where q.name = n.queue), 300))
            from named n
            where n.lane = any(array(select m.lane from made m));
            continue;
        end if;
        if v_open then
            for i in 1 .. v_groups loop
                if p_keys[i] is null and lanes[i] is null then
                    lanes[i] := inturn.open_lane(
                        p_queues[i], p_kinds[i], p_priorities[i], p_rounds[i], lanes);
                end if;
            end loop;
        end if;

        select array_agg(g.lane), array_agg(g.n)
        into v_sorted, v_places
        from (select * from unnest(lanes) with ordinality as g(lane, n) order by g.lane) g;
        if 0 = all(p_rounds_last) then
            with moved as (
                update inturn.tail t
                set last = t.last + p_counts[v_places[width_bucket(t.lane, v_sorted)]]
                where t.lane = any(v_sorted)
                returning v_places[width_bucket(t.lane, v_sorted)] as n, t.last, t.round
            )
            select array_agg(m.last - p_counts[m.n] order by m.n), array_agg(m.round order by m.n)
            into befores, floors from moved m;
            exit when cardinality(befores) = v_groups;
            if cardinality(befores) > 0 then
                raise exception 'a lane was pruned while its tail was reserved'
                using errcode = 'serialization_failure', hint = 'Try again.';
            end if;
        else
            select array_agg(t.last order by t.n), array_agg(t.round order by t.n)
            into befores, floors
            from (
                select v_places[width_bucket(t.lane, v_sorted)] as n, t.last, t.round
                from inturn.tail t where t.lane = any(v_sorted) order by t.lane for update
            ) t;
            if cardinality(befores) = v_groups then
                update inturn.tail t set
                    last = t.last + p_counts[v_places[width_bucket(t.lane, v_sorted)]],
                    round = greatest(
                        t.round, p_rounds_last[v_places[width_bucket(t.lane, v_sorted)]])
                where t.lane = any(v_sorted);
                exit;
            end if;
        end if;
        lanes := array_fill(null::bigint, array[v_groups]); -- pruned between the look and the lock
    end loop;

    perform inturn.rouse(
        v_sorted, v_places, befores, p_kinds, p_priorities, p_rounds, floors, p_sinces, at);
end $$;

-- An open lane whose tail nobody holds, locked; a new one when all are taken.
--
-- A line that has grown long is shared out over a few lanes, so that many consumers need not take
-- turns at one: of the lanes, one with the fewest thousands of jobs is taken, the oldest first.
-- At "repeatable read" and above a tail that moved since the snapshot cannot be locked; such a
-- producer gets a lane of its own rather than an error, for no order is promised between open
-- lanes.
create or replace function inturn.open_lane(
    p_queue text, p_kind text, p_priority integer, p_round integer, p_taken bigint[]
) returns bigint language plpgsql set plans = by_index as $$
declare
    v_lane bigint;
begin
    if current_setting('transaction_isolation') = 'read committed' then
        v_lane := inturn.free_open_lane(p_queue, p_kind, p_priority, p_round, p_taken);
    else
        begin
            v_lane := inturn.free_open_lane(p_queue, p_kind, p_priority, p_round, p_taken);
        exception when serialization_failure then
            v_lane := null;
        end;
    end if;
    if v_lane is null then
        perform inturn.make_queues(array[p_queue]);
        insert into inturn.tail (queue, round) values (p_queue, p_round) returning lane into v_lane;
        insert into inturn.lane (id, queue, kind, priority, round)
        values (v_lane, p_queue, p_kind, p_priority, p_round);
    end if;
    return v_lane;
end $$;

-- The open lane to append to, its tail locked; null when there is none, or when those there are
-- have long lines and there are fewer than four.
create or replace function inturn.free_open_lane(
    p_queue text, p_kind text, p_priority integer, p_round integer, p_taken bigint[]
) returns bigint language plpgsql set plans = by_index as $$
declare
    v_lane bigint;
    v_thousands bigint;
begin
    select t.lane, (t.last - l.cursor + 1) / 1000 into v_lane, v_thousands
    from inturn.lane l
    join inturn.tail t on t.lane = l.id
    where l.queue = p_queue and l.key is null and l.kind = p_kind and l.priority = p_priority
      and l.round = p_round and l.id <> all(array_remove(p_taken, null))
    order by (t.last - l.cursor + 1) / 1000, l.id
    limit 1
    for update of t skip locked;
    if v_thousands > 0 and 4 > (
        select count(*) from inturn.lane l
        where l.queue = p_queue and l.key is null and l.kind = p_kind and l.priority = p_priority
          and l.round = p_round
    ) then
        return null;
    end if;
    return v_lane;
end $$;

-- Put jobs at the tails of their lanes, in the given order within each lane.
-- In a keyed lane a job's round is raised to that of the job before it: rounds never fall there.
create or replace function inturn.append(
    p_ids uuid[], p_queues text[], p_keys text[], p_kinds text[], p_payloads text[],
    p_priorities integer[], p_rounds integer[], p_attempts integer[], p_timeouts double precision[],
    p_sinces timestamptz[], p_now timestamptz
) returns table (id uuid, lane bigint, "position" bigint) language plpgsql
set enable_seqscan = off set enable_hashjoin = on set enable_mergejoin = on as $$
#variable_conflict use_column
declare
    g record;
    r record;
begin
    if cardinality(p_ids) = 1 then
        r := inturn.reserve(
            p_queues, p_keys, p_kinds, p_priorities, p_rounds, p_rounds, array[1], p_sinces,
            p_now, false);
        return query
        insert into inturn.job (
            lane, position, id, kind, payload, priority, round,
            attempts_max, timeout_seconds, enqueued_at)
        values (
            r.lanes[1], r.befores[1] + 1, p_ids[1], p_kinds[1], p_payloads[1],
            p_priorities[1], greatest(p_rounds[1], r.floors[1]),
            p_attempts[1], p_timeouts[1], p_sinces[1])
        returning job.id, job.lane, job.position;
        return;
    end if;
    select
        array_agg(queue) as queues, array_agg(key) as keys, array_agg(kind) as kinds,
        array_agg(priority) as priorities, array_agg(round) as rounds,
        array_agg(round_last) as rounds_last, array_agg(count) as counts,
        array_agg(since) as sinces, array_agg(place) as places
    into g
    from (
        select
            n.queue, n.key,
            (array_agg(n.kind order by n.n))[1] as kind,
            (array_agg(n.priority order by n.n))[1] as priority,
            (array_agg(n.round order by n.n))[1] as round,
            max(n.round) as round_last,
            count(*)::integer as count,
            (array_agg(n.since order by n.n))[1] as since,
            n.place
        from (
            select
                j.*,
                case
                    when j.key is null then jsonb_build_array(j.queue, j.kind, j.priority, j.round)
                    else jsonb_build_array(j.queue, j.key)
                end::text as place
            from unnest(p_queues, p_keys, p_kinds, p_priorities, p_rounds, p_sinces)
                with ordinality as j(queue, key, kind, priority, round, since, n)
        ) n
        group by n.queue, n.key, n.place
        order by n.place
    ) grouped;
    r := inturn.reserve(
        g.queues, g.keys, g.kinds, g.priorities, g.rounds, g.rounds_last, g.counts, g.sinces,
        p_now, false);
    return query
    insert into inturn.job (
        lane, position, id, kind, payload, priority, round,
        attempts_max, timeout_seconds, enqueued_at)
    select
        l.lane, l.before + row_number() over (partition by l.lane order by j.n),
        j.id, j.kind, j.payload, j.priority,
        greatest(l.floor, max(j.round) over (partition by l.lane order by j.n)),
        j.attempts, j.timeout, j.since
    from unnest(
        p_ids, p_queues, p_keys, p_kinds, p_payloads, p_priorities, p_rounds,
        p_attempts, p_timeouts, p_sinces
    ) with ordinality
        as j(id, queue, key, kind, payload, priority, round, attempts, timeout, since, n)
    join unnest(r.lanes, r.befores, r.floors, g.places) as l(lane, before, floor, place)
      on l.place = case
          when j.key is null then jsonb_build_array(j.queue, j.kind, j.priority, j.round)
          else jsonb_build_array(j.queue, j.key)
      end::text
    returning job.id, job.lane, job.position;
end $$;
