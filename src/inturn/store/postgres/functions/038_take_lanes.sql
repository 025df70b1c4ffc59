-- Lock claimable lanes, best first, until they hold as many jobs as are wanted; say which run of
-- each to take. Lanes that turn out to be empty are put to sleep; an open lane only when what it
-- gave
-- last was accepted more than a second ago, so that a lane whose consumers keep up with its
-- producers is not put to sleep and woken with every batch.
--
-- A lane's row is the newest (it is locked); its tail is as old as the statement's snapshot, so at
-- worst the run is shorter than it could be. Everything up to that tail is committed.
create or replace function inturn.take_lanes(
    p_queue text, p_jobs_max integer, p_gate integer, p_kinds text[], p_aging double precision,
    p_now timestamptz
) returns inturn.turn language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_bitmapscan = off set plan_cache_mode = force_generic_plan as $$
declare
    r record;
    v_last bigint;
    v_left integer := p_jobs_max;
    v_cancels boolean := exists (select from inturn.cancelled c where c.lane is not null);
    v_empty bigint[] := '{}';
    v_rank_at timestamptz;
    v_late boolean;
    v_again boolean;
    v_limit integer := 1;
    v_looked integer;
    v_seen bigint[] := '{}';
    v_lanes bigint[] := '{}';
    v_keys text[] := '{}';
    v_firsts bigint[] := '{}';
    v_lasts bigint[] := '{}';
    v_attempts integer[] := '{}';
    v_holes bigint := 0;
begin
    for v_turn in 1 .. 50 loop
        v_again := false;
        v_looked := 0;
        for r in
            select l.id, l.key, l.cursor, l.head_attempt, l.rank_at, l.priority,
                   t.last, t.round as round_last
            from inturn.lane l cross join lateral (
                select o.last, o.round from inturn.tail o where o.lane = l.id limit 1) t
            where l.queue = p_queue and l.rank_at is not null and not l.suspect
              and l.round <= p_gate and (p_kinds is null or l.kind = any(p_kinds))
              and (v_turn = 1 or l.id <> all(v_seen))
            order by l.round, l.rank_at limit v_limit for update of l skip locked
        loop
            v_looked := v_looked + 1;
            v_last := least(r.last, r.cursor + v_left - 1);
            if r.key is not null and r.round_last > p_gate then
                v_last := least(v_last, (select min(j.position) - 1 from inturn.job j
                    where j.lane = r.id and j.position >= r.cursor and j.round > p_gate));
            end if;
            if r.key is null then
                -- Younger than its rank says? Then it stands further back: look once more.
                select inturn.rank(coalesce(max(j.enqueued_at), p_now), r.priority, p_aging)
                into v_rank_at from inturn.job j where j.lane = r.id and j.position = r.cursor;
                v_late := r.rank_at < v_rank_at - interval '1 second';
                if v_late and v_last >= r.cursor and v_turn < 40 then
                    update inturn.lane set rank_at = v_rank_at where id = r.id;
                    v_again := true;
                    exit;
                end if;
            end if;
            if v_cancels then
                select * into r.cursor, v_last, v_left
                from inturn.around_cancelled(r.id, r.key, r.cursor, v_last, v_left);
            end if;
            v_seen := v_seen || r.id;
            if v_last < r.cursor then
                if r.key is not null or v_late then
                    v_empty := v_empty || r.id;
                end if;
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
        continue when v_again;
        if v_left > 0 and v_looked = v_limit then
            -- As many lanes next as should hold what is still wanted, judged by those so far: a
            -- claim keeps no more lanes from others than it takes.
            v_limit := least(v_left, greatest(v_limit, 1
                + v_left * cardinality(v_seen) / greatest(p_jobs_max - v_left, 1)));
            continue;
        end if;
        -- A cancel may have been committed before its lane was locked: look now that it is.
        exit when v_cancels or not exists (select from inturn.cancelled c where c.lane is not null);
        v_cancels := true;
        v_left := p_jobs_max;
        v_lanes := '{}'; v_keys := '{}'; v_firsts := '{}'; v_lasts := '{}'; v_attempts := '{}';
        v_seen := '{}'; v_empty := '{}';
    end loop;
    if v_cancels then
        select count(*) into v_holes from unnest(v_lanes, v_firsts, v_lasts) as k(lane, first, last)
        join inturn.cancelled c on c.lane = k.lane and c.position between k.first and k.last;
    end if;
    if cardinality(v_empty) > 0 then
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
