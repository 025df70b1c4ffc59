-- The active lanes of a queue, each once: those that may be claimed, suspect or not, are leased,
-- wait to retry or for a look at their head, or are held by nothing but a person. Each part is a
-- look into an index, and whoever needs only some reads no further.
create or replace function inturn.active_lanes(p_queue text) returns setof inturn.lane
language sql stable as $$
    select l.* from inturn.lane l
    where l.queue = p_queue and l.rank_at is not null and not l.suspect
    union all
    select l.* from inturn.lane l
    where l.queue = p_queue and l.suspect and l.rank_at is not null
    union all
    select l.*
    from inturn.lease e
    cross join lateral unnest(e.lanes) k(lane)
    cross join lateral (
        select o.* from inturn.lane o where o.id = k.lane and o.token = e.token limit 1) l
    where e.queue = p_queue
    union all
    select l.* from inturn.lane l
    where l.queue = p_queue and l.ready_at is not null and l.active and l.token is null
    union all
    select l.* from inturn.lane l
    where l.queue = p_queue and l.look_at is not null and l.active and l.token is null
      and l.ready_at is null
    union all
    select l.* from inturn.lane l
    where l.queue = p_queue and (l.halted_at is not null or l.paused_at is not null) and l.active
      and l.token is null and l.ready_at is null and l.look_at is null
$$;

-- What stands in the active lanes of a queue, counted now: how many jobs wait, how many are between
-- attempts, how many lanes there are, how many of them are halted, and since when the oldest job
-- waits; and whether they are more than a thousand. Read from lanes and tails, never by counting
-- the log. With p_lanes_max no more than so many lanes are looked at.
--
-- The head of a keyed lane does not wait when it is between attempts or dead ("rests"). The oldest
-- job of a line is the first from its cursor on: a keyed lane whose head waits knows when that was
-- accepted, for any other lane it is one look into the log.
create or replace function inturn.count_lanes(
    p_queue text, p_lanes_max integer, out waiting bigint, out retrying bigint, out lanes bigint,
    out halted bigint, out oldest_at timestamptz, out many boolean
) language plpgsql stable set plans = by_index as $$
#variable_conflict use_column
begin
    select
        coalesce(sum(n.depth - n.rests::integer), 0)::bigint, count(*) filter (where n.retries),
        count(*) filter (where n.depth > 0 or n.token is not null), count(n.halted_at),
        min(case
            when n.depth <= n.rests::integer then null
            when n.cancels = 0 and n.waiting_since is not null and n.key is not null
                and n.token is null and not n.rests then n.waiting_since
            else (
                select j.enqueued_at from inturn.job j
                where j.lane = n.id and j.position >= n.cursor + n.rests::integer
                  and (n.cancels = 0 or not exists (
                      select from inturn.cancelled c
                      where c.lane = j.lane and c.position = j.position))
                order by j.position limit 1)
        end),
        count(*) > 1000
    into waiting, retrying, lanes, halted, oldest_at, many
    from (
        select
            l.id, l.key, l.cursor, l.token, l.halted_at, l.waiting_since, h.retries, c.cancels,
            h.retries or l.halted_at is not null as rests,
            t.last - l.cursor + 1 - c.cancels as depth
        from (select * from inturn.active_lanes(p_queue) limit p_lanes_max) l
        cross join lateral (select o.last from inturn.tail o where o.lane = l.id limit 1) t
        cross join lateral (
            select l.key is not null and l.token is null and l.halted_at is null
                   and l.head_attempt > 0 as retries
        ) h
        cross join lateral (
            select case when l.cursor > l.cancelled_last then 0 else (
                select count(*) from inturn.cancelled c
                where c.lane = l.id and c.position >= l.cursor)
            end as cancels
        ) c
    ) n;
end $$;

-- How many jobs of a queue are blocked, scheduled or between attempts outside their lanes, counted
-- up to p_jobs_max.
create or replace function inturn.count_aside(p_queue text, p_jobs_max integer) returns bigint
language plpgsql stable set plans = by_index as $$
begin
    return (
        select count(*) from (
            select from inturn.parked p where p.queue = p_queue and p.delayed
            union all
            select from inturn.parked p
            where p.queue = p_queue and p.token is null and not p.suspect and not p.delayed
            union all
            select from inturn.parked p
            where p.queue = p_queue and p.token is null and p.suspect
            union all
            select from inturn.blocked b where b.queue = p_queue
            limit p_jobs_max) n);
end $$;

-- Count a large queue anew if its count is older than p_seconds, nobody else is at it, and we may
-- write. What is older than 10 seconds is no use: then everybody counts. At other isolation levels
-- than "read committed" a row that others have written could not be.
create or replace function inturn.recount(p_queue text, p_seconds double precision) returns void
language plpgsql as $$
begin
    if not exists (
        select from inturn.depth d
        where d.queue = p_queue
          and d.counted_at > clock_timestamp() - make_interval(secs => p_seconds)
    ) and current_setting('transaction_isolation') = 'read committed'
        and current_setting('transaction_read_only') = 'off'
        and has_table_privilege('inturn.depth', 'insert')
        and has_table_privilege('inturn.depth', 'update')
        and pg_try_advisory_xact_lock(hashtext('inturn.depth'), hashtext(p_queue))
    then
        insert into inturn.depth as d (
            queue, counted_at, waiting, retrying, lanes, halted, oldest_at, others)
        select
            p_queue, clock_timestamp(), n.waiting, n.retrying, n.lanes, n.halted, n.oldest_at,
            inturn.count_aside(p_queue, null)
        from inturn.count_lanes(p_queue, null) n
        on conflict (queue) do update set
            counted_at = excluded.counted_at, waiting = excluded.waiting,
            retrying = excluded.retrying, lanes = excluded.lanes, halted = excluded.halted,
            oldest_at = excluded.oldest_at, others = excluded.others;
    end if;
end $$;

-- What stands in the active lanes of a queue: counted now, or if it is large, as it was counted a
-- moment ago. "many" says that only some were counted, because nobody has counted all lately: call
-- recount, and ask again with p_recounted.
create or replace function inturn.lanes_counted(
    p_queue text, p_recounted boolean, out waiting bigint, out retrying bigint, out lanes bigint,
    out halted bigint, out oldest_at timestamptz, out many boolean
) language plpgsql stable as $$
#variable_conflict use_column
begin
    select d.waiting, d.retrying, d.lanes, d.halted, d.oldest_at, false
    into waiting, retrying, lanes, halted, oldest_at, many
    from inturn.depth d
    where d.queue = p_queue
      and d.counted_at
          > clock_timestamp() - make_interval(secs => case when p_recounted then 10 else 1 end);
    if not found then
        select * into waiting, retrying, lanes, halted, oldest_at, many
        from inturn.count_lanes(p_queue, case when p_recounted then null else 1001 end);
    end if;
end $$;

-- How many jobs of a queue are not started: waiting, blocked, scheduled or between attempts. Exact
-- up to a thousand active lanes and a thousand jobs outside them; beyond ("counted_before") as
-- counted p_seconds ago at most, or 10 seconds while others count or hold an open transaction.
create or replace function inturn.depth(
    p_queue text, p_seconds double precision, out jobs bigint, out counted_before boolean
) language plpgsql as $$
declare
    n record;
    v_aside bigint;
begin
    counted_before := true;
    select d.waiting + d.retrying + d.halted + d.others into jobs
    from inturn.depth d
    where d.queue = p_queue
      and d.counted_at > clock_timestamp() - make_interval(secs => p_seconds);
    if found then
        return;
    end if;
    select * into n from inturn.count_lanes(p_queue, 1001);
    v_aside := inturn.count_aside(p_queue, 1001);
    counted_before := n.many or v_aside > 1000;
    if counted_before then
        perform inturn.recount(p_queue, p_seconds);
        select d.waiting + d.retrying + d.halted + d.others into jobs
        from inturn.depth d
        where d.queue = p_queue and d.counted_at > clock_timestamp() - interval '10 seconds';
        if found then
            return;
        end if;
        select * into n from inturn.count_lanes(p_queue, null);
        v_aside := inturn.count_aside(p_queue, null);
    end if;
    jobs := n.waiting + n.retrying + n.halted + v_aside;
end $$;

-- How many jobs of a queue were done or buried in this minute and the minutes before it, and within
-- how many seconds. Every settle leaves a row until a sweep folds them, so the latest 10,000 have
-- to do, which take 5 ms. Where there are more, the queue drains faster than this says.
create or replace function inturn.settled_lately(
    p_queue text, p_minutes_before integer, p_now timestamptz
) returns table (settled bigint, within_seconds double precision) language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off as $$
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
begin
    return query
    select
        coalesce(sum(latest.settled), 0)::bigint,
        coalesce(extract(epoch from v_now - min(latest.minute_at)), 0)::double precision
    from (
        select s.minute_at, s.done + s.buried as settled
        from inturn.stat s
        where s.queue = p_queue
          and s.minute_at >= date_trunc('minute', v_now, 'UTC')
              - make_interval(mins => p_minutes_before)
        order by s.minute_at desc
        limit 10000
    ) latest;
end $$;

-- Refuse jobs that would take a queue or a keyed lane past its bound. Producers do not wait for one
-- another here, so a bound may be passed by what others accept at the same moment. What is accepted
-- is added to the count of a large queue; what was claimed since then is found by counting once
-- more before a refusal.
create or replace function inturn.check_bounds(
    p_queues text[], p_keys text[], p_adds integer[]
) returns void language plpgsql as $$
declare
    r record;
    d record;
begin
    if not exists (
        select from inturn.queue
        where name = any(p_queues) and num_nonnulls(depth_max, lane_depth_max) > 0
    ) then
        return;
    end if;
    for r in
        select q.name, q.depth_max, sum(j.adds) as adds
        from unnest(p_queues, p_adds) as j(queue, adds)
        join inturn.queue q on q.name = j.queue
        where q.depth_max is not null
        group by q.name, q.depth_max
        having sum(j.adds) > 0
    loop
        select * into d from inturn.depth(r.name, 1);
        if d.counted_before and d.jobs + r.adds > r.depth_max then
            select * into d from inturn.depth(r.name, 0.1);
        end if;
        if d.jobs + r.adds > r.depth_max then
            raise exception 'queue % holds % jobs and may hold %', r.name, d.jobs, r.depth_max
            using errcode = 'IT003', detail = jsonb_build_object(
                'queue', r.name, 'key', null, 'depth', d.jobs, 'depth_max', r.depth_max,
                'added', r.adds
            )::text;
        end if;
        if d.counted_before and current_setting('transaction_isolation') = 'read committed'
            and pg_try_advisory_xact_lock(hashtext('inturn.depth'), hashtext(r.name))
        then
            update inturn.depth set others = others + r.adds where queue = r.name;
        end if;
    end loop;
    for r in
        select
            j.queue, j.key, q.lane_depth_max, j.adds,
            coalesce(t.last - l.cursor + 1, 0) - (
                select count(*) from inturn.cancelled c
                where c.lane = l.id and c.position >= l.cursor
            ) as depth
        from (
            select queue, key, sum(adds) as adds
            from unnest(p_queues, p_keys, p_adds) as n(queue, key, adds)
            where key is not null
            group by queue, key
            having sum(adds) > 0
        ) j
        join inturn.queue q on q.name = j.queue and q.lane_depth_max is not null
        left join inturn.tail t on t.queue = j.queue and t.key = j.key
        left join inturn.lane l on l.id = t.lane
    loop
        if r.depth + r.adds > r.lane_depth_max then
            raise exception 'lane % of queue % holds % jobs and may hold %',
                r.key, r.queue, r.depth, r.lane_depth_max
            using errcode = 'IT003', detail = jsonb_build_object(
                'queue', r.queue, 'key', r.key, 'depth', r.depth, 'depth_max', r.lane_depth_max,
                'added', r.adds
            )::text;
        end if;
    end loop;
end $$;
