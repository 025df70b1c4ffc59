-- Bring lanes whose head has changed, or that were found empty, into the state their line says:
-- claimable with the new head's kind, priority and round, or inactive. A keyed lane that is
-- neither, because its tail is in a producer's hands, is looked at again after p_look_after.
--
-- Called by whoever holds the lane row's lock or its lease, after the cursor was set.
create or replace function inturn.freshen(
    p_lanes bigint[], p_now timestamptz, p_look_after interval default '20 milliseconds'
) returns void language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_bitmapscan = off set plan_cache_mode = force_generic_plan as $$
declare
    v_idle bigint[];
begin
    if inturn.within() then
        v_idle := '{}';
    else
        v_idle := array(
            select t.lane
            from inturn.tail t
            where t.lane = any(p_lanes)
              and t.last < (select l.cursor from inturn.lane l where l.id = t.lane)
            for update skip locked);
    end if;
    if cardinality(v_idle) > 0 then
        perform inturn.rest(v_idle);
    end if;
    if cardinality(v_idle) < cardinality(p_lanes) then
        update inturn.lane l set
            token = null, ready_at = null,
            suspect = l.key is not null and l.cursor <= l.suspect_last,
            (kind, priority, round, waiting_since, rank_at, look_at) = (
                select
                    coalesce(h.kind, l.kind), coalesce(h.priority, l.priority),
                    coalesce(h.round, l.round), h.since,
                    case when l.paused_at is null and l.halted_at is null then h.rank_at end,
                    p_now + h.look_after
                from inturn.head(
                    l.id, l.cursor, l.key, l.queue, l.priority, p_now, p_look_after) h)
        where l.id = any(p_lanes) and l.id <> all(v_idle);
    end if;
end $$;

-- What stands at a lane's cursor, and the rank that gives the lane. Nothing may stand there when
-- its tail is in a producer's hands. What that producer puts there is not known before it commits,
-- so a keyed lane has no rank until it was looked at again; an open one, whose jobs are alike,
-- stays claimable as it is.
create or replace function inturn.head(
    p_lane bigint, p_cursor bigint, p_key text, p_queue text, p_priority smallint,
    p_now timestamptz, p_look_after interval
) returns table (
    kind text, priority smallint, round integer, since timestamptz, rank_at timestamptz,
    look_after interval
) language sql stable as $$
    select
        j.kind, j.priority, j.round, j.enqueued_at,
        case when j.lane is not null or p_key is null then inturn.rank(
            coalesce(j.enqueued_at, p_now), coalesce(j.priority, p_priority),
            coalesce(q.aging_seconds, 300)) end,
        case when j.lane is null and p_key is not null then p_look_after end
    from (select) one
    left join inturn.job j on j.lane = p_lane and j.position = p_cursor
    left join inturn.queue q on q.name = p_queue
$$;

-- Put drained lanes to sleep. Their tails are locked by the caller (tried, never waited for:
-- producers lock tail before lane), and tail.last < cursor holds.
--
-- Right at every isolation level because the tail is also *written*, so that a producer whose
-- snapshot is older, and who would read a stale "active", fails with a serialization error instead
-- of stranding its job.
create or replace function inturn.rest(p_lanes bigint[]) returns void language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_bitmapscan = off set plan_cache_mode = force_generic_plan as $$
begin
    update inturn.tail set last = last where lane = any(p_lanes);
    update inturn.lane set
        token = null, ready_at = null, look_at = null, active = false, rank_at = null,
        waiting_since = null, suspect = false,
        head = case when key is null then head else cursor end,
        head_attempt = 0, head_crashes = 0, head_errors = null
    where id = any(p_lanes);
end $$;
