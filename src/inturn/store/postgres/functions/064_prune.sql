-- Note how far lanes are finished, so that a later prune knows how long ago that was.
create or replace function inturn.mark_finished(p_now timestamptz) returns void language sql as $$
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
    ) f
    where f.through >= coalesce(
        (select min(j.position) from inturn.job j where j.lane = f.lane), f.through + 1)
      and f.through > coalesce(
        (select max(m.position) from inturn.mark m where m.lane = f.lane), 0)
$$;

-- Take finished jobs out of the log, in ranges, once their lane's mark is old enough. What is
-- parked, dead or cancelled has the whole job with it and misses nothing.
create or replace function inturn.prune_jobs(p_now timestamptz) returns bigint
language plpgsql as $$
declare
    m record;
    v_count bigint;
    v_total bigint := 0;
begin
    for m in
        select k.lane, max(k.position) as position
        from inturn.mark k
        join inturn.lane l on l.id = k.lane
        join inturn.queue q on q.name = l.queue
        where k.marked_at <= p_now - make_interval(secs => q.keep_done_seconds)
        group by k.lane
    loop
        delete from inturn.job where lane = m.lane and position <= m.position;
        get diagnostics v_count = row_count;
        v_total := v_total + v_count;
        delete from inturn.cancelled where lane = m.lane and position <= m.position;
        delete from inturn.mark where lane = m.lane and position <= m.position;
    end loop;
    return v_total;
end $$;

-- Take away lanes with nothing in them. The lane and its tail are only tried, never waited for; a
-- producer that found the lane before looks for it anew when its tail is gone.
create or replace function inturn.prune_lanes() returns bigint language plpgsql as $$
declare
    v_lanes bigint[];
begin
    v_lanes := array(
        select l.id
        from inturn.lane l
        where not l.active and l.paused_at is null and l.halted_at is null and l.token is null
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

-- Take away what has expired: cancelled jobs, results, dedupe keys, old statistics, silent workers.
create or replace function inturn.prune(p_now timestamptz) returns table (
    jobs bigint, lanes bigint, cancelled bigint, results bigint, dedupes bigint, stats bigint,
    workers bigint
) language plpgsql as $$
#variable_conflict use_column
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
begin
    if not pg_try_advisory_xact_lock(hashtext('inturn.prune')) then
        -- Someone else is at it.
        jobs := 0; lanes := 0; cancelled := 0; results := 0; dedupes := 0; stats := 0; workers := 0;
        return next;
        return;
    end if;
    perform inturn.admit(10000, v_now);
    perform inturn.mark_finished(v_now);
    jobs := inturn.prune_jobs(v_now);
    lanes := inturn.prune_lanes();
    delete from inturn.cancelled c
    using inturn.queue q
    where q.name = c.queue
      and c.cancelled_at <= v_now - make_interval(secs => q.keep_done_seconds)
      and not exists (select from inturn.lane l where l.id = c.lane and c.position >= l.cursor)
      and not exists (select from inturn.job j where j.id = c.id);
    get diagnostics cancelled = row_count;
    delete from inturn.result where job in (
        select job from inturn.result where until <= v_now for update skip locked);
    get diagnostics results = row_count;
    delete from inturn.dedupe d
    using (
        select queue, dedupe from inturn.dedupe where until <= v_now for update skip locked
    ) o
    where d.queue = o.queue and d.dedupe = o.dedupe;
    get diagnostics dedupes = row_count;
    delete from inturn.progress p
    where not exists (select from inturn.lease e where e.token = p.token);
    stats := inturn.fold_stats(v_now);
    delete from inturn.worker where seen_at <= v_now - interval '1 day';
    get diagnostics workers = row_count;
    return next;
end $$;

-- Drop statistics older than a week; make one row a minute out of what settles have added.
create or replace function inturn.fold_stats(p_now timestamptz) returns bigint
language plpgsql as $$
declare
    v_count bigint;
begin
    delete from inturn.stat where minute_at <= p_now - interval '7 days';
    get diagnostics v_count = row_count;
    with many as (
        select queue, kind, minute_at
        from inturn.stat
        where minute_at < date_trunc('minute', p_now, 'UTC')
        group by queue, kind, minute_at
        having count(*) > 1
    ), gone as (
        delete from inturn.stat s
        using many m
        where s.queue = m.queue and s.kind = m.kind and s.minute_at = m.minute_at
        returning s.*
    )
    insert into inturn.stat (
        queue, kind, minute_at, done, retried, buried, released, seconds_sum, durations)
    select
        g.queue, g.kind, g.minute_at,
        sum(g.done), sum(g.retried), sum(g.buried), sum(g.released), sum(g.seconds_sum),
        (
            select array_agg(total order by bucket)
            from (
                select d.bucket, sum(d.count) as total
                from gone o
                cross join unnest(o.durations) with ordinality as d(count, bucket)
                where o.queue = g.queue and o.kind = g.kind and o.minute_at = g.minute_at
                group by d.bucket
            ) b
        )
    from gone g
    group by g.queue, g.kind, g.minute_at;
    return v_count;
end $$;
