-- Take positions for groups of jobs, one group a lane: make the lane if need be, lock its tail,
-- move it, wake the lane. Returns, in the order of the groups, the lane, the position before the
-- first, and the lowest round the lane allows; and the time. p_sinces: when each group's first job
-- was accepted; null means now.
--
-- Right because positions are given under the tail's lock, kept until commit: within a lane the
-- order of positions is the order of commits, so a cursor never passes a job that is not there yet.
-- Tails of keyed lanes are locked in the order of lanes, so two batches never wait crosswise.
-- A group without a key takes any lane of its kind whose tail is free, and adds one when all are
-- taken.
create or replace function inturn.reserve(
    p_queues text[], p_keys text[], p_kinds text[], p_priorities integer[], p_rounds integer[],
    p_rounds_last integer[], p_counts integer[], p_sinces timestamptz[], p_now timestamptz,
        p_bounded boolean,
    out lanes bigint[], out befores bigint[], out floors integer[], out at timestamptz
) language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
    set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
    v_groups integer := cardinality(p_queues);
    v_open boolean := false;
    v_missing boolean;
    v_woken text[];
    v_asleep bigint[];
begin
    at := coalesce(p_now, clock_timestamp());
    if p_bounded then
        perform inturn.check_bounds(p_queues, p_keys, p_counts);
    end if;
    lanes := array_fill(null::bigint, array[v_groups]);
    loop
        if v_groups = 1 and p_keys[1] is not null then
            select array[l.id] into lanes from inturn.lane l
            where l.queue = p_queues[1] and l.key = p_keys[1];
            v_missing := lanes is null;
        else
            select array_agg(coalesce(l.id, lanes[g.n]) order by g.n),
                bool_or(l.id is null and g.key is not null),
                   bool_or(g.key is null)
            into lanes, v_missing, v_open
            from unnest(p_queues, p_keys) with ordinality as g(queue, key, n)
            left join inturn.lane l on l.queue = g.queue and l.key = g.key;
        end if;
        if v_missing then
            perform inturn.make_queues(p_queues);
            with made as (
                insert into inturn.lane (queue, key, kind, priority, round, active, waiting_since,
                    rank_at)
                select g.queue, g.key, g.kind, g.priority, g.round, true, coalesce(g.since, at),
                       inturn.rank(coalesce(g.since, at), g.priority,
                           coalesce(q.aging_seconds, 300))
                from unnest(p_queues, p_keys, p_kinds, p_priorities, p_rounds, p_sinces)
                    as g(queue, key, kind, priority, round, since)
                left join inturn.queue q on q.name = g.queue
                where g.key is not null
                  and not exists (select from inturn.lane l where l.queue = g.queue
                      and l.key = g.key)
                order by g.queue, g.key
                on conflict (queue, key) where key is not null do nothing
                returning id
            )
            insert into inturn.tail (lane) select id from made;
            continue;
        end if;
        if v_open then
            for i in 1 .. v_groups loop
                if p_keys[i] is null and lanes[i] is null then
                    lanes[i] := inturn.open_lane(p_queues[i], p_kinds[i], p_priorities[i],
                        p_rounds[i], lanes);
                end if;
            end loop;
        end if;

        if v_groups = 1 then
            update inturn.tail t
            set last = t.last + p_counts[1], round = greatest(t.round, p_rounds_last[1])
            from (select o.lane, o.round from inturn.tail o where o.lane = lanes[1] for update) o
            where t.lane = o.lane
            returning array[t.last - p_counts[1]], array[o.round] into befores, floors;
            exit when found;
        elsif 0 = all(p_rounds_last) then
            -- Locked and moved at once, in the order of lanes: the subquery is sorted, and with the
            -- planner's other joins turned off each tail is looked up in turn.
            with moved as (
                update inturn.tail t set last = t.last + g.count
                from (
                    select lane, count, n
                    from unnest(lanes, p_counts) with ordinality as g(lane, count, n) order by lane
                ) g
                where t.lane = g.lane
                returning g.n, t.last - g.count as before, t.round
            )
            select array_agg(m.before order by m.n), array_agg(m.round order by m.n)
            into befores, floors from moved m;
            exit when cardinality(befores) = v_groups;
            raise exception 'a lane was pruned while its tail was reserved'
            using errcode = 'serialization_failure', hint = 'Try again.';
        else
            select array_agg(t.last order by t.n), array_agg(t.round order by t.n)
            into befores, floors
            from (
                select g.n, t.last, t.round
                from unnest(lanes) with ordinality as g(lane, n)
                join inturn.tail t on t.lane = g.lane
                order by t.lane for update of t
            ) t;
            if cardinality(befores) = v_groups then
                update inturn.tail t
                set last = g.before + g.count, round = greatest(g.floor, g.round_last)
                from unnest(lanes, befores, p_counts, floors, p_rounds_last)
                    as g(lane, before, count, floor, round_last)
                where t.lane = g.lane;
                exit;
            end if;
        end if;
        lanes := array_fill(null::bigint, array[v_groups]); -- pruned between the look and the lock
    end loop;

    -- A new statement, so that at "read committed" it sees what was committed before the tail was
    -- locked: a lane that is active now cannot become inactive while the tail is held. A lane that
    -- was
    -- left active although drained learns its new head, too.
    select array_agg(l.id) filter (where not l.active
        or (l.key is not null and l.token is null and l.cursor > g.before)),
           array_agg(distinct l.queue) filter (where l.token is null and l.cursor > g.before)
    into v_asleep, v_woken
    from unnest(lanes, befores) as g(lane, before) join inturn.lane l on l.id = g.lane;
    if v_asleep is not null then
        update inturn.lane l set
            active = true,
            kind = g.kind, priority = g.priority, round = greatest(g.round, g.floor),
            waiting_since = coalesce(g.since, at),
            head_attempt = 0, head_crashes = 0, head_errors = null,
            rank_at = case when l.paused_at is null and l.halted_at is null then
                inturn.rank(coalesce(g.since, at), g.priority,
                    coalesce((select q.aging_seconds from inturn.queue q where q.name = l.queue),
                        300))
            end
        from unnest(lanes, p_kinds, p_priorities, p_rounds, floors, p_sinces)
            as g(lane, kind, priority, round, floor, since)
        where g.lane = any(v_asleep) and l.id = g.lane;
    end if;
    if v_woken is not null then
        perform pg_notify('inturn', q) from unnest(v_woken) q;
    end if;
end $$;
