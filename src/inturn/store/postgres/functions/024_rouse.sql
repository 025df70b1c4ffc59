-- Rouse lanes that jobs are being appended to: one that sleeps becomes claimable, and whoever waits
-- for work is notified where a lane had none. Called by who holds the lanes' tails, with the lanes
-- in order and the place of each in the other arrays; p_befores: the last position before.
--
-- Right because it is a statement of its own: at "read committed" it sees what was committed before
-- the tails were locked, and a lane that is active now cannot become inactive while its tail is
-- held. A lane that was left active although drained learns its new head, too.
create or replace function inturn.rouse(
    p_lanes bigint[], p_places integer[], p_befores bigint[],
    p_kinds text[], p_priorities integer[], p_rounds integer[], p_floors integer[],
    p_sinces timestamptz[], p_at timestamptz
) returns void language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_bitmapscan = off set plan_cache_mode = force_generic_plan as $$
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
