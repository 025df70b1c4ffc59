-- What stands in the active lanes of a queue, counted now: how many jobs wait, how many are between
-- attempts, how many lanes there are, how many of them are halted, and since when the oldest job
-- waits. Read from lanes and tails, never by counting the log.
--
-- The head of a keyed lane does not wait when it is between attempts or dead ("rests"). The oldest
-- job of a line is the first from its cursor on: a keyed lane whose head waits knows when that was
-- accepted, for any other lane it is one look into the log.
create or replace function inturn.count_lanes(
    p_queue text, out waiting bigint, out retrying bigint, out lanes bigint, out halted bigint,
    out oldest_at timestamptz
) language plpgsql stable
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_bitmapscan = off set plan_cache_mode = force_generic_plan as $$
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
        end)
    into waiting, retrying, lanes, halted, oldest_at
    from (
        select
            l.id, l.key, l.cursor, l.token, l.halted_at, l.waiting_since, h.retries, c.cancels,
            h.retries or l.halted_at is not null as rests,
            t.last - l.cursor + 1 - c.cancels as depth
        from inturn.lane l
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
        where l.queue = p_queue and l.active
    ) n;
end $$;

-- Whether a queue has so many active lanes that they are counted once a second at most.
create or replace function inturn.has_many_lanes(p_queue text) returns boolean
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set plan_cache_mode = force_generic_plan as $$
begin
    return 1000 < (
        select count(*) from (
            select from inturn.lane l where l.queue = p_queue and l.active limit 1001) l);
end $$;

-- Count the lanes of a queue with many of them anew if that was last done more than a second ago
-- and nobody else is at it. What is older than 10 seconds is no use: then everybody counts. At
-- other isolation levels than "read committed" a row that others have written could not be.
create or replace function inturn.recount(p_queue text) returns void language plpgsql as $$
begin
    if not exists (
        select from inturn.depth d
        where d.queue = p_queue and d.counted_at > clock_timestamp() - interval '1 second'
    ) and current_setting('transaction_isolation') = 'read committed'
        and pg_try_advisory_xact_lock(hashtext('inturn.depth'), hashtext(p_queue))
    then
        insert into inturn.depth as d
        select p_queue, clock_timestamp(), n.* from inturn.count_lanes(p_queue) n
        on conflict (queue) do update set
            counted_at = excluded.counted_at, waiting = excluded.waiting,
            retrying = excluded.retrying, lanes = excluded.lanes, halted = excluded.halted,
            oldest_at = excluded.oldest_at;
    end if;
end $$;

-- What stands in the active lanes of a queue: counted now, or with many lanes as it was counted a
-- moment ago.
create or replace function inturn.lanes_counted(
    p_queue text, out waiting bigint, out retrying bigint, out lanes bigint, out halted bigint,
    out oldest_at timestamptz
) language plpgsql stable as $$
#variable_conflict use_column
begin
    if inturn.has_many_lanes(p_queue) then
        select d.waiting, d.retrying, d.lanes, d.halted, d.oldest_at
        into waiting, retrying, lanes, halted, oldest_at
        from inturn.depth d
        where d.queue = p_queue and d.counted_at > clock_timestamp() - interval '10 seconds';
        if found then
            return;
        end if;
    end if;
    select * into waiting, retrying, lanes, halted, oldest_at from inturn.count_lanes(p_queue);
end $$;

-- How many jobs of a queue are not started: waiting, blocked, scheduled or between attempts. Exact
-- up to a thousand active lanes.
create or replace function inturn.depth(p_queue text) returns bigint language plpgsql as $$
begin
    if inturn.has_many_lanes(p_queue) then
        perform inturn.recount(p_queue);
    end if;
    return (
        select n.waiting + n.retrying + n.halted from inturn.lanes_counted(p_queue) n)
        + (select count(*) from inturn.parked p where p.queue = p_queue and p.delayed)
        + (
            select count(*) from inturn.parked p
            where p.queue = p_queue and p.token is null and not p.suspect and not p.delayed)
        + (
            select count(*) from inturn.parked p
            where p.queue = p_queue and p.token is null and p.suspect)
        + (select count(*) from inturn.blocked b where b.queue = p_queue);
end $$;
