-- Lanes whose retry is due may be claimed again.
create or replace function inturn.wake(
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
) returns boolean language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_bitmapscan = off set plan_cache_mode = force_generic_plan as $$
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
    perform inturn.freshen(v_lanes, p_now, '1 second');
    return exists (
        select from inturn.lane l where l.id = any(v_lanes) and l.rank_at is not null);
end $$;
