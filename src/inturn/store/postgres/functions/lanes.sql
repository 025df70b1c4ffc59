-- Bring lanes whose head has changed, or that were found empty, into the state their line says:
-- claimable with the new head's kind, priority and round, or inactive. A keyed lane that is
-- neither, because its tail is in a producer's hands, is looked at again after p_look_after.
--
-- Called by whoever holds the lane row's lock or its lease, after the cursor was set.
create or replace function inturn.refresh(
    p_lanes bigint[], p_now timestamptz, p_look_after interval default '20 milliseconds'
) returns void language plpgsql set plans = by_index as $$
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
create or replace function inturn.rest(p_lanes bigint[]) returns void
language plpgsql set plans = by_index as $$
begin
    update inturn.tail set last = last where lane = any(p_lanes);
    update inturn.lane set
        token = null, ready_at = null, look_at = null, active = false, rank_at = null,
        waiting_since = null, suspect = false,
        head = case when key is null then head else cursor end,
        head_attempt = 0, head_crashes = 0, head_errors = null
    where id = any(p_lanes);
end $$;

-- End the lease on a keyed lane at a position: that job is the head again, the rest of the run is
-- given back, and the lane is claimable at once or sleeps until p_ready_at.
create or replace function inturn.give_back(
    p_lane bigint, p_position bigint, p_attempt integer, p_crashes integer, p_errors jsonb,
    p_ready_at timestamptz, p_now timestamptz
) returns void language plpgsql as $$
begin
    update inturn.lane set
        head = p_position, cursor = p_position, token = null,
        head_attempt = p_attempt, head_crashes = p_crashes, head_errors = p_errors
    where id = p_lane;
    perform inturn.refresh(array[p_lane], p_now);
    if p_ready_at > p_now then
        update inturn.lane set ready_at = p_ready_at, rank_at = null where id = p_lane;
    end if;
end $$;

-- Go on behind a keyed lane's head: the next position, and the cancelled ones after it, are passed.
-- With p_position null, only pass cancelled positions at the cursor (open lanes too).
create or replace function inturn.pass(p_lane bigint, p_position bigint) returns void
language plpgsql as $$
declare
    v_next bigint;
begin
    select coalesce(p_position + 1, cursor) into v_next from inturn.lane where id = p_lane;
    while exists (select from inturn.cancelled where lane = p_lane and position = v_next) loop
        v_next := v_next + 1;
    end loop;
    update inturn.lane set
        cursor = v_next,
        head = case when key is null then head else v_next end,
        head_attempt = 0, head_crashes = 0, head_errors = null
    where id = p_lane and (cursor <> v_next or p_position is not null);
end $$;

-- Rouse lanes that jobs are being appended to: one that sleeps becomes claimable, and whoever waits
-- for work is notified where a lane had none. Called by whoever holds the lanes' tails, with
-- the lanes in order and the place of each in the other arrays; p_befores: the last position
-- before.
--
-- Right because it is a statement of its own: at "read committed" it sees what was committed before
-- the tails were locked, and a lane that is active now cannot become inactive while its tail is
-- held. A lane that was left active although drained learns its new head, too.
create or replace function inturn.rouse(
    p_lanes bigint[], p_places integer[], p_befores bigint[],
    p_kinds text[], p_priorities integer[], p_rounds integer[], p_floors integer[],
    p_sinces timestamptz[], p_at timestamptz
) returns void language plpgsql set plans = by_index as $$
declare
    v_woken text[];
    v_asleep bigint[];
begin
    select
        array_agg(l.id) filter (
            where not l.active or (l.key is not null and l.token is null and l.drained)),
        array_agg(distinct l.queue) filter (where l.token is null and l.drained)
    into v_asleep, v_woken
    from (
        select l.*, l.cursor > p_befores[p_places[width_bucket(l.id, p_lanes)]] as drained
        from inturn.lane l where l.id = any(p_lanes)
    ) l;
    if v_asleep is not null then
        update inturn.lane l set
            active = true, look_at = null,
            kind = p_kinds[p_places[width_bucket(l.id, p_lanes)]],
            priority = p_priorities[p_places[width_bucket(l.id, p_lanes)]],
            round = greatest(
                p_rounds[p_places[width_bucket(l.id, p_lanes)]],
                p_floors[p_places[width_bucket(l.id, p_lanes)]]),
            waiting_since = coalesce(p_sinces[p_places[width_bucket(l.id, p_lanes)]], p_at),
            head_attempt = 0, head_crashes = 0, head_errors = null,
            rank_at = case
                when l.paused_at is null and l.halted_at is null then inturn.rank(
                    coalesce(p_sinces[p_places[width_bucket(l.id, p_lanes)]], p_at),
                    p_priorities[p_places[width_bucket(l.id, p_lanes)]],
                    coalesce((
                        select q.aging_seconds from inturn.queue q where q.name = l.queue), 300))
            end
        where l.id = any(v_asleep);
    end if;
    if v_woken is not null then
        perform pg_notify('inturn', q) from unnest(v_woken) q;
    end if;
end $$;

-- Lanes whose retry is due may be claimed again.
create or replace function inturn.wake_lanes(
    p_queue text, p_now timestamptz, p_aging double precision
) returns void language sql as $$
    update inturn.lane l set
        ready_at = null,
        rank_at = case
            when l.paused_at is null and l.halted_at is null
                then inturn.rank(coalesce(l.waiting_since, p_now), l.priority, p_aging)
        end
    where l.id in (
        select id from inturn.lane
        where queue = p_queue and ready_at <= p_now
        for update skip locked)
$$;

-- Look again at lanes that were left unsure of their head because a producer held their tail, up
-- to those whose look_at is p_until; return whether one of them may be claimed now. Those whose
-- tail is still held are looked at again later, and only some at a time: a transaction that stays
-- open on many keys costs a claim little.
create or replace function inturn.look_again(
    p_queue text, p_until timestamptz, p_now timestamptz
) returns boolean language plpgsql set plans = by_index as $$
declare
    v_lanes bigint[] := array(
        select l.id from inturn.lane l
        where l.queue = p_queue and l.look_at <= p_until
        order by l.look_at
        limit 100
        for update skip locked);
begin
    if cardinality(v_lanes) = 0 then
        return false;
    end if;
    perform inturn.refresh(v_lanes, p_now, '1 second');
    return exists (
        select from inturn.lane l where l.id = any(v_lanes) and l.rank_at is not null);
end $$;
