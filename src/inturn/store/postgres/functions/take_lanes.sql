-- Lock claimable lanes, best first, until they hold as many jobs as are wanted; say which run of
-- each to take.
--
-- A lane's row is the newest (it is locked); its tail is as old as the statement's snapshot, so at
-- worst the run is shorter than it could be. Everything up to that tail is committed.
--
-- The first look is at p_lanes lanes, or one; the next at as many as should hold what is still
-- wanted, judged by those so far: a claim keeps hardly more lanes from others than it takes. Plain
-- lanes (keyed, all their rounds open, nothing cancelled ahead) are taken as they come, the others
-- one by one. Where the first look finds all that is wanted, it is the answer.
--
-- Of a keyed lane p_keyed_max jobs are taken at most.
--
-- Plans are made as claim, which calls this, has them made.
create or replace function inturn.take_lanes(
    p_queue text, p_jobs_max integer, p_gate integer, p_kinds text[], p_aging double precision,
    p_now timestamptz, p_lanes integer, p_keyed_max integer
) returns inturn.taken language plpgsql as $$
declare
    f record;  -- the lanes of one look
    r record;  -- the run to take of one lane that is not plain
    v_cancels boolean := false;  -- whether a lane that was looked at has cancelled positions ahead
    v_again boolean;
    v_limit integer := greatest(1, least(coalesce(p_lanes, 1), p_jobs_max));
    v_left integer := p_jobs_max;
    v_seen bigint[] := '{}';
    v_empty bigint[];
    v_lanes bigint[];
    v_keys text[];
    v_firsts bigint[];
    v_lasts bigint[];
    v_attempts integer[];
    v_holes bigint := 0;
begin
    for v_look in 1 .. 50 loop
        select
            count(*)::integer as looked,
            bool_and(l.plain) as plain,
            array_agg(l.id) as seen,
            array_agg(l.id) filter (where l.jobs > 0 and l.before < v_left) as lanes,
            array_agg(l.key) filter (where l.jobs > 0 and l.before < v_left) as keys,
            array_agg(l.cursor) filter (where l.jobs > 0 and l.before < v_left) as firsts,
            array_agg(l.cursor + least(l.jobs, v_left - l.before) - 1)
                filter (where l.jobs > 0 and l.before < v_left) as lasts,
            array_agg(l.head_attempt + 1)
                filter (where l.jobs > 0 and l.before < v_left) as attempts,
            array_agg(l.id) filter (where l.jobs = 0) as empty,
            least(sum(l.jobs), v_left) as jobs
        into f
        from (
            select
                o.*,
                coalesce(sum(o.jobs) over (rows between unbounded preceding and 1 preceding), 0)
                    as before
            from (
                select
                    l.id, l.key, l.cursor, l.head_attempt,
                    l.key is not null and t.round <= p_gate and l.cursor > l.cancelled_last
                        as plain,
                    greatest(0, least(
                        case when l.key is null then p_jobs_max else p_keyed_max end,
                        p_jobs_max, t.last - l.cursor + 1))::integer as jobs
                from (
                    select l.id, l.key, l.cursor, l.head_attempt, l.cancelled_last
                    from inturn.lane l
                    where l.queue = p_queue and l.rank_at is not null and not l.suspect
                      and l.round <= p_gate
                      and (p_kinds is null or l.kind = any(p_kinds))
                      and (v_look = 1 or l.id <> all(v_seen))
                    order by l.round, l.rank_at, l.id
                    limit v_limit
                    for no key update skip locked
                ) l
                cross join lateral (
                    select o.last, o.round from inturn.tail o where o.lane = l.id limit 1
                ) t
            ) o
        ) l;
        if v_look = 1 and f.plain and f.jobs = p_jobs_max and f.empty is null then
            return row(
                f.jobs, 0, f.looked,
                f.lanes, f.keys, f.firsts, f.lasts, f.attempts)::inturn.taken;
        end if;
        v_again := false;
        if f.plain then
            v_seen := v_seen || f.seen;
            v_empty := v_empty || f.empty;
            v_lanes := v_lanes || f.lanes;
            v_keys := v_keys || f.keys;
            v_firsts := v_firsts || f.firsts;
            v_lasts := v_lasts || f.lasts;
            v_attempts := v_attempts || f.attempts;
            v_left := v_left - f.jobs;
        elsif f.looked > 0 then
            for i in 1 .. cardinality(f.seen) loop
                r := inturn.fit_lane(
                    f.seen[i], v_left, p_gate, p_aging, v_look < 40, p_now, p_keyed_max);
                v_again := r.moved;
                exit when v_again;
                v_seen := v_seen || f.seen[i];
                v_cancels := v_cancels or r.cancels;
                if r.last < r.first then
                    if r.drained then
                        v_empty := v_empty || f.seen[i];
                    end if;
                    continue;
                end if;
                v_lanes := v_lanes || f.seen[i];
                v_keys := v_keys || r.key;
                v_firsts := v_firsts || r.first;
                v_lasts := v_lasts || r.last;
                v_attempts := v_attempts || r.attempt;
                v_left := r.room - (r.last - r.first + 1)::integer;
                exit when v_left <= 0;
            end loop;
        end if;
        continue when v_again;
        exit when v_left <= 0;
        exit when f.looked < v_limit;
        if v_left = p_jobs_max then
            v_limit := least(v_limit * 2, 1000);
        else
            v_limit := least(greatest(1000, 10 * cardinality(v_seen)), greatest(v_limit, 1
                + v_left * cardinality(v_seen) / (p_jobs_max - v_left)));
        end if;
    end loop;
    if v_cancels then
        select count(*) into v_holes
        from unnest(v_lanes, v_firsts, v_lasts) as k(lane, first, last)
        join inturn.cancelled c on c.lane = k.lane and c.position between k.first and k.last;
    end if;
    if cardinality(v_empty) > 0 then
        perform inturn.refresh(v_empty, p_now);
    end if;
    return row(
        p_jobs_max - greatest(v_left, 0), v_holes, cardinality(v_seen),
        v_lanes, v_keys, v_firsts, v_lasts, v_attempts)::inturn.taken;
end $$;

-- The run to take of a locked lane that is not plain: no further than the gate is open, around
-- cancelled positions. drained: nothing stands in it, so it may be put to sleep; an open lane only
-- when what it gave last was accepted more than a second ago, so that a lane whose consumers keep
-- up with its producers is not put to sleep and woken with every batch. moved: an open lane's head
-- is younger than its rank says, so that it stands further back now, and the look begins again.
create or replace function inturn.fit_lane(
    p_lane bigint, p_left integer, p_gate integer, p_aging double precision, p_may_move boolean,
    p_now timestamptz, p_keyed_max integer,
    out key text, out first bigint, out last bigint, out attempt integer, out room integer,
    out drained boolean, out moved boolean, out cancels boolean
) language plpgsql as $$
#variable_conflict use_column
declare
    l record;
    v_rank_at timestamptz;
    v_end bigint;  -- up to here, positions may be taken
    v_left integer;  -- so many of this lane
begin
    select o.key, o.cursor, o.head_attempt, o.rank_at, o.priority, o.cancelled_last, t.last, t.round
    into l
    from inturn.lane o
    join inturn.tail t on t.lane = o.id
    where o.id = p_lane;
    key := l.key;
    first := l.cursor;
    v_end := l.last;
    attempt := case when l.key is null then 1 else l.head_attempt + 1 end;
    room := p_left;
    v_left := least(p_left, case when l.key is not null then p_keyed_max end);
    drained := l.key is not null;
    moved := false;
    cancels := l.cursor <= l.cancelled_last;
    if l.key is null then
        select inturn.rank(coalesce(max(j.enqueued_at), p_now), l.priority, p_aging)
        into v_rank_at
        from inturn.job j where j.lane = p_lane and j.position = l.cursor;
        drained := l.rank_at < v_rank_at - interval '1 second';
        if drained and v_end >= first and p_may_move then
            update inturn.lane o set rank_at = v_rank_at where o.id = p_lane;
            moved := true;
            return;
        end if;
    elsif l.round > p_gate then
        v_end := least(v_end, (
            select min(j.position) - 1 from inturn.job j
            where j.lane = p_lane and j.position >= l.cursor and j.round > p_gate));
    end if;
    last := least(v_end, l.cursor + v_left - 1);
    if cancels then
        select a.first, a.last, case when l.key is null then a.room else p_left end
        into first, last, room
        from inturn.around_cancelled(p_lane, l.key, l.cursor, v_end, v_left) a;
    end if;
end $$;

-- Fit a run of p_left jobs, up to p_end, around cancelled positions: those at the cursor are
-- passed; a keyed run ends before the next one; in an open run they are gaps, and make room for as
-- many positions more.
create or replace function inturn.around_cancelled(
    p_lane bigint, p_key text, p_cursor bigint, p_end bigint, p_left integer,
    out first bigint, out last bigint, out room integer
) language plpgsql as $$
declare
    v_wanted bigint;
begin
    first := p_cursor;
    room := p_left;
    if exists (select from inturn.cancelled where lane = p_lane and position = p_cursor) then
        perform inturn.pass(p_lane, null);
        select cursor into first from inturn.lane where id = p_lane;
    end if;
    last := least(p_end, first + p_left - 1);
    if p_key is not null then
        last := least(last, (
            select min(position) - 1 from inturn.cancelled
            where lane = p_lane and position between first and last));
        return;
    end if;
    loop
        room := p_left + (
            select count(*) from inturn.cancelled
            where lane = p_lane and position between first and last);
        v_wanted := least(p_end, first + room - 1);
        exit when v_wanted = last;
        last := v_wanted;
    end loop;
end $$;

-- Lease the runs that were taken: move the cursors, write the lease, return the jobs. Plans are
-- made as claim, which calls this, has them made.
create or replace function inturn.lease_lanes(
    p_taken inturn.taken, p_queue text, p_worker text, p_aging double precision,
    p_now timestamptz, p_until timestamptz, p_limited boolean
) returns inturn.claimed language plpgsql as $$
#variable_conflict use_column
declare
    v_token bigint := nextval('inturn.token');
    v_open boolean := num_nulls(variadic p_taken.keys) > 0;
    v_holes bigint := p_taken.holes;
    v_counts integer[];
    v_claimed inturn.claimed;
    -- The first job's, which most of the others share. (Variables of their own, because a record's
    -- field is dear to read once a row.)
    v_kind text;
    v_priority smallint;
    v_round integer;
    v_attempts_max smallint;
    v_timeout double precision;
    v_at timestamptz;
begin
    if v_holes > 0 then
        v_counts := array(
            select r.last - r.first + 1 - (
                select count(*) from inturn.cancelled c
                where c.lane = r.lane and c.position between r.first and r.last)
            from unnest(p_taken.lanes, p_taken.firsts, p_taken.lasts) with ordinality
                as r(lane, first, last, n)
            order by r.n);
    end if;
    -- An open lane's rank follows the age of its line, but is rewritten once a second at most: an
    -- indexed column that changed with every claim would leave a dead index entry with each.
    update inturn.lane l set
        cursor = r.last + 1,
        token = case when l.key is not null then v_token end,
        rank_at = case
            when l.key is null then (
                select case
                    when l.rank_at < o.rank_at - interval '1 second' then o.rank_at
                    else l.rank_at
                end
                from (
                    select inturn.rank(o.enqueued_at, l.priority, p_aging) as rank_at
                    from inturn.job o
                    where o.lane = l.id and o.position = r.last
                ) o)
        end,
        head_attempt = case when l.key is not null then r.attempt else 0 end
    from unnest(p_taken.lanes, p_taken.lasts, p_taken.attempts) as r(lane, last, attempt)
    where l.id = r.lane;
    insert into inturn.lease (token, queue, worker, claimed_at, until, lanes, unsettled, limited)
    values (
        v_token, p_queue, p_worker, p_now, p_until,
        case
            when v_open then array(
                select r.lane from unnest(p_taken.lanes, p_taken.keys) as r(lane, key)
                where r.key is not null)
            else p_taken.lanes
        end,
        p_taken.jobs, p_limited);
    if v_open then
        insert into inturn.run (token, lane, first, last, settled)
        select
            v_token, r.lane, r.first, r.last,
            coalesce(case when v_holes > 0 then (
                select range_agg(int8range(c.position, c.position, '[]'))
                from inturn.cancelled c
                where c.lane = r.lane and c.position between r.first and r.last
            ) end, '{}')
        from unnest(p_taken.lanes, p_taken.keys, p_taken.firsts, p_taken.lasts)
            as r(lane, key, first, last)
        where r.key is null;
    end if;

    select kind, priority, round, attempts_max, timeout_seconds, enqueued_at
    into v_kind, v_priority, v_round, v_attempts_max, v_timeout, v_at
    from inturn.job where lane = p_taken.lanes[1] and position = p_taken.firsts[1];
    select
        v_token, p_until, false,
        p_taken.lanes, p_taken.keys, p_taken.firsts, p_taken.lasts, p_taken.attempts,
        v_counts, null,
        string_agg(uuid_send(o.id), ''), string_agg(o.payload, E'\x1e'),
        v_kind, v_priority, v_round, v_attempts_max, v_timeout, v_at,
        case when bool_or(
            row(o.kind, o.priority, o.round, o.attempts_max, o.timeout_seconds)
            is distinct from row(v_kind, v_priority, v_round, v_attempts_max, v_timeout)
        ) then '{}'::uuid[] end, null, null, null, null, null,
        case
            when bool_or(o.enqueued_at <> v_at)
                then string_agg(float8send(date_part('epoch', o.enqueued_at)), '')
        end
    into v_claimed
    from unnest(p_taken.lanes, p_taken.firsts, p_taken.lasts) as r(lane, first, last)
    cross join lateral (
        select o.*
        from inturn.job o
        where o.lane = r.lane and o.position >= r.first and o.position <= r.last
          and (v_holes = 0 or not exists (
              select from inturn.cancelled c where c.lane = o.lane and c.position = o.position))
        order by o.position
        limit r.last - r.first + 1
    ) o;
    if v_holes > 0 then
        v_claimed.positions := array(
            select o.position
            from unnest(p_taken.lanes, p_taken.firsts, p_taken.lasts) with ordinality
                as r(lane, first, last, n)
            join inturn.job o
              on o.lane = r.lane and o.position >= r.first and o.position <= r.last
            where not exists (
                select from inturn.cancelled c
                where c.lane = o.lane and c.position = o.position)
            order by r.n, o.position);
    end if;
    if v_claimed.odd is not null then
        select
            array_agg(o.id), array_agg(o.kind), array_agg(o.priority), array_agg(o.round),
            array_agg(o.attempts_max), array_agg(o.timeout_seconds)
        into
            v_claimed.odd, v_claimed.odd_kinds, v_claimed.odd_priorities, v_claimed.odd_rounds,
            v_claimed.odd_attempts_max, v_claimed.odd_timeouts
        from unnest(p_taken.lanes, p_taken.firsts, p_taken.lasts) as r(lane, first, last)
        join inturn.job o on o.lane = r.lane and o.position >= r.first and o.position <= r.last
        where (o.kind <> v_kind or o.priority <> v_priority or o.round <> v_round
               or o.attempts_max <> v_attempts_max or o.timeout_seconds is distinct from v_timeout)
          and not exists (
              select from inturn.cancelled c where c.lane = o.lane and c.position = o.position);
    end if;
    return v_claimed;
end $$;
