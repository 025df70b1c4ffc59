-- Lease the runs that were taken: move the cursors, write the lease, return the jobs. Plans are
-- made as claim, which calls this, has them made.
create or replace function inturn.lease_lanes(
    p_taken inturn.taken, p_queue text, p_worker text, p_aging double precision,
    p_now timestamptz, p_until timestamptz
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
    insert into inturn.lease (token, queue, worker, claimed_at, until, lanes, unsettled)
    values (
        v_token, p_queue, p_worker, p_now, p_until,
        case
            when v_open then array(
                select r.lane from unnest(p_taken.lanes, p_taken.keys) as r(lane, key)
                where r.key is not null)
            else p_taken.lanes
        end,
        p_taken.jobs);
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
