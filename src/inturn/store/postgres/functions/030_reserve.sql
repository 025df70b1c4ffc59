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
) language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_bitmapscan = off set plan_cache_mode = force_generic_plan as $$
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
