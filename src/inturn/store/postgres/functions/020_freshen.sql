-- Bring lanes whose head has changed, or that were found empty, into the state their line says:
-- claimable with the new head's kind, priority and round, or inactive. With p_done, what was leased
-- of them is done: the head is what stands at the cursor, and nothing is known of it yet.
--
-- Called by whoever holds the lane row's lock or its lease, after the cursor was set.
-- Right at every isolation level because a lane is made inactive only while its tail is locked
-- (tried, never waited for: producers lock tail before lane) and tail.last < cursor holds; and
-- because the tail is also *written*, so that a producer whose snapshot is older, and who would
-- read a stale "active", fails with a serialization error instead of stranding its job.
-- A lane whose tail is taken stays claimable and is looked at again by the next claim.
create or replace function inturn.freshen(p_lanes bigint[], p_done boolean,
    p_now timestamptz) returns void
language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
    set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan as $$
declare
    v_idle bigint[];
    v record;  -- the other lanes, and what stands at their cursors
begin
    v_idle := array(
        select t.lane from inturn.tail t
        where t.lane = any(p_lanes) and t.last < (select l.cursor from inturn.lane l
            where l.id = t.lane)
        for update skip locked);
    if cardinality(v_idle) > 0 then
        update inturn.tail set last = last where lane = any(v_idle);
        update inturn.lane set
            token = null, ready_at = null, active = false, rank_at = null, waiting_since = null,
                suspect = false,
            head = case when key is null then head else cursor end, head_attempt = 0,
                head_crashes = 0, head_errors = null
        where id = any(v_idle);
        if cardinality(v_idle) = cardinality(p_lanes) then
            return;
        end if;
    end if;
    select array_agg(h.id order by h.id) as lanes, array_agg(h.kind order by h.id) as kinds,
           array_agg(h.priority order by h.id) as priorities,
               array_agg(h.round order by h.id) as rounds,
           array_agg(h.enqueued_at order by h.id) as sinces
    into v from (
        select distinct l.id, j.kind, j.priority, j.round, j.enqueued_at
        from unnest(p_lanes) as u(lane)
        cross join lateral (select o.id, o.cursor from inturn.lane o where o.id = u.lane limit 1) l
        left join lateral (
            select * from inturn.job o where o.lane = l.id and o.position = l.cursor limit 1) j
                on true
        where u.lane <> all(v_idle)
    ) h;
    update inturn.lane l set
        token = null,
        ready_at = null,
        head = case when p_done and l.key is not null then l.cursor else l.head end,
        head_attempt = case when p_done then 0 else l.head_attempt end,
        head_crashes = case when p_done then 0 else l.head_crashes end,
        head_errors = case when not p_done then l.head_errors end,
        kind = coalesce(v.kinds[width_bucket(l.id, v.lanes)], l.kind),
        priority = coalesce(v.priorities[width_bucket(l.id, v.lanes)], l.priority),
        round = coalesce(v.rounds[width_bucket(l.id, v.lanes)], l.round),
        waiting_since = v.sinces[width_bucket(l.id, v.lanes)],
        suspect = l.key is not null and l.cursor <= l.suspect_last,
        rank_at = case when l.paused_at is null and l.halted_at is null then inturn.rank(
            coalesce(v.sinces[width_bucket(l.id, v.lanes)], p_now),
            coalesce(v.priorities[width_bucket(l.id, v.lanes)], l.priority),
            coalesce((select q.aging_seconds from inturn.queue q where q.name = l.queue), 300)) end
    where l.id = any(v.lanes);
end $$;
