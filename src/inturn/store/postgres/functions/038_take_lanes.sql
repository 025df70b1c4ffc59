-- Lock claimable lanes, best first, until they hold as many jobs as are wanted; say which run of
-- each to take. Lanes that turn out to be empty are put to sleep.
--
-- A lane's row is the newest (it is locked); its tail is as old as the statement's snapshot, so at
-- worst the run is shorter than it could be. Everything up to that tail is committed.
create or replace function inturn.take_lanes(
    p_queue text, p_jobs_max integer, p_gate integer, p_kinds text[], p_now timestamptz
) returns inturn.turn language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_bitmapscan = off set plan_cache_mode = force_generic_plan as $$
declare
    r record;
    v_last bigint;
    v_left integer := p_jobs_max;
    v_cancels boolean := exists (select from inturn.cancelled c where c.lane is not null);
    v_empty bigint[];
    v_lanes bigint[] := '{}';
    v_keys text[] := '{}';
    v_firsts bigint[] := '{}';
    v_lasts bigint[] := '{}';
    v_attempts integer[] := '{}';
    v_holes bigint := 0;
begin
    for r in
        select l.id, l.key, l.cursor, l.head_attempt, t.last, t.round as round_last
        from inturn.lane l join inturn.tail t on t.lane = l.id
        where l.queue = p_queue and l.rank_at is not null and l.round <= p_gate
          and not l.suspect and (p_kinds is null or l.kind = any(p_kinds))
        order by l.round, l.rank_at for update of l skip locked
    loop
        v_last := least(r.last, r.cursor + v_left - 1);
        if r.key is not null and r.round_last > p_gate then
            v_last := least(v_last, (select min(j.position) - 1 from inturn.job j
                where j.lane = r.id and j.position >= r.cursor and j.round > p_gate));
        end if;
        if v_cancels then
            select * into r.cursor, v_last, v_left
            from inturn.around_cancelled(r.id, r.key, r.cursor, v_last, v_left);
        end if;
        if v_last < r.cursor then
            v_empty := v_empty || r.id;
            continue;
        end if;
        v_lanes := v_lanes || r.id;
        v_keys := v_keys || r.key;
        v_firsts := v_firsts || r.cursor;
        v_lasts := v_lasts || v_last;
        v_attempts := v_attempts || case when r.key is null then 1 else r.head_attempt + 1 end;
        v_left := v_left - (v_last - r.cursor + 1)::integer;
        exit when v_left <= 0;
    end loop;
    if v_cancels then
        select count(*) into v_holes from unnest(v_lanes, v_firsts, v_lasts) as k(lane, first, last)
        join inturn.cancelled c on c.lane = k.lane and c.position between k.first and k.last;
    end if;
    if v_empty is not null then
        perform inturn.freshen(v_empty, false, p_now);
    end if;
    return row(p_jobs_max - greatest(v_left, 0), v_holes, v_lanes, v_keys, v_firsts, v_lasts,
        v_attempts)::inturn.turn;
end $$;

-- Fit a run around cancelled positions: those at the cursor are passed; a keyed run ends before the
-- next one; in an open run they are gaps, and make room for as many jobs more.
create or replace function inturn.around_cancelled(
    p_lane bigint, p_key text, p_cursor bigint, p_last bigint, p_left integer,
    out first bigint, out last bigint, out room integer
) language plpgsql as $$
declare
    v_next bigint;
begin
    first := p_cursor; last := p_last; room := p_left;
    if exists (select from inturn.cancelled where lane = p_lane and position = p_cursor) then
        perform inturn.pass(p_lane, null);
        select cursor into first from inturn.lane where id = p_lane;
    end if;
    select min(position) into v_next from inturn.cancelled
    where lane = p_lane and position between first and last;
    if p_key is not null then
        last := least(last, v_next - 1);
    elsif v_next is not null then
        room := room + (select count(*) from inturn.cancelled
                        where lane = p_lane and position between first and last);
    end if;
end $$;
