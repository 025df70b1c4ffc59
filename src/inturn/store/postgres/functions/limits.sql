-- How many jobs of a queue with limits may start now. The queue's row of limited is locked then, if
-- it is not 0: nobody else claims from the queue until this transaction ends.
--
-- Looked at without the lock first, so that those who find no place do not stand in line for it.
-- The holder of the lock waits for nobody: a turn that has settled may wait for it.
create or replace function inturn.places(
    p_queue text, p_running_max integer, p_rate integer, p_rate_seconds double precision,
    p_now timestamptz, out places bigint, out at timestamptz
) language plpgsql set plans = by_index as $$
declare
    v_starts bigint;
    v_window interval := inturn.rate_window(p_rate_seconds);
begin
    at := coalesce(p_now, clock_timestamp());
    places := inturn.running_places(p_queue, p_running_max);
    select l.starts into v_starts from inturn.limited l where l.queue = p_queue;
    if places > 0 and v_starts >= p_rate then
        if not exists (
            select from inturn.start s
            where s.queue = p_queue and s.started_at <= at - v_window
        ) then
            places := 0;
        end if;
    end if;
    if places <= 0 then
        places := 0;
        return;
    end if;
    insert into inturn.limited (queue) select p_queue where v_starts is null on conflict do nothing;
    select l.starts into v_starts from inturn.limited l where l.queue = p_queue for no key update;
    at := coalesce(p_now, clock_timestamp()); -- the time may have gone on meanwhile
    places := inturn.running_places(p_queue, p_running_max);
    if p_rate is not null then
        with passed as (
            delete from inturn.start s
            where s.queue = p_queue and s.started_at <= at - v_window
            returning s.jobs
        )
        select v_starts - coalesce(sum(p.jobs), 0) into v_starts from passed p;
        update inturn.limited l set starts = v_starts
        where l.queue = p_queue and l.starts <> v_starts;
        places := least(places, p_rate - v_starts);
    end if;
    places := greatest(places, 0);
end $$;

-- How long a start counts: a little longer than the time of the rate. A handler starts a moment
-- after its claim, and of two bursts the late ones of the first and all of the second would share a
-- window.
create or replace function inturn.rate_window(p_rate_seconds double precision) returns interval
language sql immutable as $$
    select make_interval(secs => p_rate_seconds + least(0.25, 0.04 * p_rate_seconds))
$$;

create or replace function inturn.running_places(p_queue text, p_running_max integer)
returns bigint language sql as $$
    select case
        when p_running_max is null then 2147483647
        else p_running_max - (
            select coalesce(sum(l.unsettled), 0)
            from inturn.lease l where l.queue = p_queue and l.limited)
    end
$$;

-- Note that jobs of a queue with limits start. Its row of limited is locked, and written in any
-- case: who reads an older snapshot fails to serialize, and counts anew.
create or replace function inturn.note_starts(
    p_queue text, p_rate integer, p_jobs bigint, p_at timestamptz
) returns void language plpgsql as $$
begin
    update inturn.limited set starts = starts + case when p_rate is null then 0 else p_jobs end
    where queue = p_queue;
    if p_rate is not null and p_jobs > 0 then
        insert into inturn.start as s (queue, started_at, jobs) values (p_queue, p_at, p_jobs)
        on conflict (queue, started_at) do update set jobs = s.jobs + excluded.jobs;
    end if;
end $$;

-- The limits of a queue were set or taken away: what runs now counts, or counts no longer. Leases
-- are locked first, and in the order of their tokens, as everyone locks them.
create or replace function inturn.set_limits(p_queue text, p_limited boolean, p_rated boolean)
returns void language plpgsql as $$
declare
    v_tokens bigint[];
begin
    v_tokens := array(
        select l.token from inturn.lease l
        where l.queue = p_queue and l.limited <> p_limited order by l.token for update);
    update inturn.lease set limited = p_limited where token = any(v_tokens);
    if p_limited then
        insert into inturn.limited (queue) values (p_queue) on conflict do nothing;
    else
        delete from inturn.limited where queue = p_queue;
    end if;
    if not p_rated then
        update inturn.limited set starts = 0 where queue = p_queue;
        delete from inturn.start where queue = p_queue;
    end if;
    perform pg_notify('inturn', p_queue);
end $$;
