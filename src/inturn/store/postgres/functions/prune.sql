-- Pruning goes in small steps, each a transaction of its own: a step takes a bounded number of
-- rows, says how many, and what it took stays taken when a later one fails. One at a time: a step
-- that finds someone else pruning does nothing and returns null.
create or replace function inturn.prune_begin() returns boolean language sql as $$
    select pg_try_advisory_xact_lock(hashtext('inturn.prune'))
$$;

-- Go over the next lanes, in the order of their ids: note how far they are finished, take finished
-- jobs whose mark is old enough, and the lanes with nothing left in them. Returns the lane to go on
-- behind, or null at the end, and what was taken.
create or replace function inturn.prune_lanes(
    p_after bigint, p_lanes_max integer, p_jobs_max integer, p_now timestamptz
) returns table (through bigint, jobs bigint, lanes bigint) language plpgsql as $$
#variable_conflict use_column
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    v_lanes bigint[];
begin
    if not inturn.prune_begin() then
        return;
    end if;
    v_lanes := array(
        select id from inturn.lane where id > p_after order by id limit p_lanes_max);
    perform inturn.mend(v_lanes, v_now);
    perform inturn.mark_finished(v_lanes, v_now);
    jobs := inturn.prune_jobs(v_lanes, p_jobs_max, v_now);
    lanes := 0;
    if jobs >= p_jobs_max then
        through := p_after; -- there may be more in these lanes
    else
        lanes := inturn.prune_idle(v_lanes);
        through := v_lanes[p_lanes_max];
    end if;
    return next;
end $$;

-- Wake lanes that are inactive although a job waits in them. There must be none, ever.
create or replace function inturn.mend(p_lanes bigint[], p_now timestamptz) returns void
language plpgsql as $$
declare
    v_lanes bigint[];
begin
    v_lanes := array(
        select l.id
        from inturn.lane l
        join inturn.tail t on t.lane = l.id
        where l.id = any(p_lanes) and not l.active and t.last >= l.cursor
        for update of l skip locked);
    if cardinality(v_lanes) > 0 then
        update inturn.lane set active = true where id = any(v_lanes);
        perform inturn.refresh(v_lanes, p_now);
    end if;
end $$;

-- Note how far lanes are finished, so that a later prune knows how long ago that was.
create or replace function inturn.mark_finished(p_lanes bigint[], p_now timestamptz) returns void
language sql as $$
    insert into inturn.mark (lane, position, marked_at)
    select f.lane, f.through, p_now
    from (
        select
            l.id as lane,
            case
                when l.key is not null then l.head
                else least(
                    l.cursor, (select min(r.first) from inturn.run r where r.lane = l.id))
            end - 1 as through
        from inturn.lane l
        where l.id = any(p_lanes)
    ) f
    where f.through >= coalesce(
        (select min(j.position) from inturn.job j where j.lane = f.lane), f.through + 1)
      and f.through > coalesce(
        (select max(m.position) from inturn.mark m where m.lane = f.lane), 0)
$$;

-- Take finished jobs out of the log, in ranges, once their lane's mark is old enough; at most so
-- many. What is parked, dead or cancelled has the whole job with it and misses nothing.
create or replace function inturn.prune_jobs(
    p_lanes bigint[], p_jobs_max integer, p_now timestamptz
) returns bigint language plpgsql as $$
declare
    m record;
    v_count bigint;
    v_total bigint := 0;
    v_through bigint;
begin
    for m in
        select k.lane, max(k.position) as position
        from inturn.mark k
        join inturn.lane l on l.id = k.lane
        join inturn.queue q on q.name = l.queue
        where k.lane = any(p_lanes)
          and k.marked_at <= p_now - make_interval(secs => q.keep_done_seconds)
        group by k.lane
        order by k.lane
    loop
        -- Where there are more than may go now, the mark stays for the next step.
        v_through := least(m.position, (
            select j.position from inturn.job j
            where j.lane = m.lane
            order by j.position
            offset p_jobs_max - v_total - 1 limit 1));
        delete from inturn.job where lane = m.lane and position <= v_through;
        get diagnostics v_count = row_count;
        v_total := v_total + v_count;
        delete from inturn.cancelled where lane = m.lane and position <= v_through;
        if v_through = m.position then
            delete from inturn.mark where lane = m.lane and position <= m.position;
        end if;
        exit when v_total >= p_jobs_max;
    end loop;
    return v_total;
end $$;

-- Take away lanes with nothing in them. The lane and its tail are only tried, never waited for; a
-- producer that found the lane before looks for it anew when its tail is gone.
create or replace function inturn.prune_idle(p_lanes bigint[]) returns bigint language plpgsql as $$
declare
    v_lanes bigint[];
begin
    v_lanes := array(
        select l.id
        from inturn.lane l
        where l.id = any(p_lanes)
          and not l.active and l.paused_at is null and l.halted_at is null and l.token is null
          and not exists (select from inturn.job j where j.lane = l.id)
          and not exists (select from inturn.run r where r.lane = l.id)
          and not exists (select from inturn.mark m where m.lane = l.id)
        for update of l skip locked);
    v_lanes := array(
        select t.lane
        from inturn.tail t
        join inturn.lane l on l.id = t.lane
        where t.lane = any(v_lanes) and t.last < l.cursor and not l.active
        for update of t skip locked);
    delete from inturn.tail where lane = any(v_lanes);
    delete from inturn.lane where id = any(v_lanes);
    return cardinality(v_lanes);
end $$;

-- Take away some of what has expired: cancelled jobs, results, dedupe keys, what was said of jobs
-- that run no more, statistics older than a week, silent workers. At most so many of each; "more"
-- says whether another step may find something.
create or replace function inturn.prune_expired(p_rows_max integer, p_now timestamptz)
returns table (
    cancelled bigint, results bigint, dedupes bigint, stats bigint, workers bigint, more boolean
) language plpgsql as $$
#variable_conflict use_column
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    v_progress bigint;
begin
    if not inturn.prune_begin() then
        return;
    end if;
    delete from inturn.cancelled where id in (
        select c.id
        from inturn.cancelled c
        join inturn.queue q on q.name = c.queue
        where c.cancelled_at <= v_now - make_interval(secs => q.keep_done_seconds)
          and not exists (select from inturn.lane l where l.id = c.lane and c.position >= l.cursor)
          and not exists (select from inturn.job j where j.id = c.id)
        limit p_rows_max);
    get diagnostics cancelled = row_count;
    delete from inturn.result where job in (
        select job from inturn.result where until <= v_now limit p_rows_max for update skip locked);
    get diagnostics results = row_count;
    delete from inturn.dedupe d
    using (
        select queue, dedupe from inturn.dedupe
        where until <= v_now
        limit p_rows_max
        for update skip locked
    ) o
    where d.queue = o.queue and d.dedupe = o.dedupe;
    get diagnostics dedupes = row_count;
    delete from inturn.progress where job in (
        select p.job
        from inturn.progress p
        where not exists (select from inturn.lease e where e.token = p.token)
        limit p_rows_max);
    get diagnostics v_progress = row_count;
    delete from inturn.stat where ctid = any(array(
        select ctid from inturn.stat
        where minute_at <= v_now - interval '7 days'
        limit p_rows_max));
    get diagnostics stats = row_count;
    delete from inturn.worker where id in (
        select id from inturn.worker where seen_at <= v_now - interval '1 day' limit p_rows_max);
    get diagnostics workers = row_count;
    more := p_rows_max in (cancelled, results, dedupes, v_progress, stats, workers);
    return next;
end $$;

-- Make one row a kind and minute out of what settles have added in this minute and those before it;
-- unless someone else is at it.
create or replace function inturn.fold_stats(p_minutes_before integer, p_now timestamptz)
returns void language plpgsql as $$
declare
    v_from timestamptz := date_trunc('minute', coalesce(p_now, clock_timestamp()), 'UTC')
        - make_interval(mins => p_minutes_before);
    m record;
begin
    if not pg_try_advisory_xact_lock(hashtext('inturn.fold')) then
        return;
    end if;
    for m in
        select q.name as queue, s.minute_at
        from inturn.queue q
        cross join lateral (
            select s.minute_at
            from inturn.stat s
            where s.queue = q.name and s.minute_at >= v_from
            group by s.kind, s.minute_at
            having count(*) > 1
        ) s
        group by q.name, s.minute_at
    loop
        perform inturn.fold_minute(m.queue, m.minute_at);
    end loop;
end $$;

create or replace function inturn.fold_minute(p_queue text, p_minute_at timestamptz) returns void
language sql as $$
    with gone as (
        delete from inturn.stat where queue = p_queue and minute_at = p_minute_at returning *
    )
    insert into inturn.stat (
        queue, kind, minute_at, done, retried, buried, released, seconds_sum, durations)
    select
        p_queue, g.kind, p_minute_at,
        sum(g.done), sum(g.retried), sum(g.buried), sum(g.released), sum(g.seconds_sum),
        (
            select array_agg(total order by bucket)
            from (
                select d.bucket, sum(d.count) as total
                from gone o
                cross join unnest(o.durations) with ordinality as d(count, bucket)
                where o.kind = g.kind
                group by d.bucket
            ) b
        )
    from gone g
    group by g.kind
$$;
