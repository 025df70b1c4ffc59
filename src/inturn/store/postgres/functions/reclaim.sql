-- Take back leases that ran out, and those of workers whose process is one of p_gone. Their
-- unsettled jobs become suspects, to be leased alone; a crash is counted only against a job that
-- was alone when its worker died.
create or replace function inturn.reclaim(p_leases_max integer, p_gone text[], p_now timestamptz)
returns table (leases integer, suspects integer, buried integer) language plpgsql as $$
#variable_conflict use_column
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    e inturn.lease;
    v_count integer;
    v_again boolean;
begin
    leases := 0;
    suspects := 0;
    buried := 0;
    if cardinality(p_gone) > 0 then
        with held as (
            select token from inturn.lease
            where until > v_now
              and worker in (select id from inturn.worker where process = any(p_gone))
            order by token
            for update skip locked
        )
        update inturn.lease l set until = v_now from held where l.token = held.token;
    end if;
    for e in
        select * from inturn.lease
        where until <= v_now
        order by until, token
        limit p_leases_max
        for update skip locked
    loop
        leases := leases + 1;
        if e.alone then
            buried := buried + inturn.reclaim_alone(e, v_now);
        else
            v_again := coalesce(
                (select q.suspects = 'again' from inturn.queue q where q.name = e.queue), false);
            suspects := suspects + inturn.reclaim_lanes(e, v_again, v_now)
                + inturn.reclaim_runs(e, v_again, v_now);
            update inturn.parked set
                suspect = reclaimed or not v_again, reclaimed = true,
                attempt = attempt - 1, token = null, run_at = v_now
            where token = e.token
            returning suspect::integer into v_count;
            suspects := suspects + coalesce(v_count, 0);
        end if;
        delete from inturn.lease where token = e.token;
        perform pg_notify('inturn', e.queue);
    end loop;
    return next;
end $$;

-- Keyed lanes of a lease that ran out: the run is given back, each of its jobs to be leased alone;
-- with p_again only those that were given back once before. Returns how many these are.
create or replace function inturn.reclaim_lanes(
    e inturn.lease, p_again boolean, p_now timestamptz
) returns integer language plpgsql set plans = by_index as $$
declare
    v_count integer;
    v_lanes bigint[];
begin
    with lost as (
        select
            id,
            case when p_again then least(reclaimed_last, cursor - 1) else cursor - 1 end
                as suspect_last
        from inturn.lane
        where id = any(e.lanes) and token = e.token
        for update
    ), given as (
        update inturn.lane l set
            suspect_last = greatest(l.suspect_last, lost.suspect_last),
            reclaimed_last = l.cursor - 1, cursor = l.head, token = null,
            head_attempt = greatest(l.head_attempt - 1, 0)
        from lost
        where l.id = lost.id
        returning l.id, greatest(lost.suspect_last - l.head + 1, 0) as jobs
    )
    select sum(jobs), array_agg(id) into v_count, v_lanes from given;
    perform inturn.refresh(v_lanes, p_now);
    return coalesce(v_count, 0);
end $$;

-- Runs of open lanes of a lease that ran out: what is not settled waits by itself from now on.
-- Returns how many of these jobs are suspects.
create or replace function inturn.reclaim_runs(
    e inturn.lease, p_again boolean, p_now timestamptz
) returns integer language plpgsql set plans = by_index as $$
declare
    v_count integer;
begin
    with lost as (
        delete from inturn.run where token = e.token returning *
    )
    insert into inturn.parked (whole_job, delayed, run_at, suspect, reclaimed)
    select
        j.id, e.queue, null, j.kind, j.payload, j.priority, j.round,
        j.attempts_max, j.timeout_seconds, j.enqueued_at,
        false, p_now, not p_again, true
    from lost r
    cross join lateral (
        select * from inturn.job where lane = r.lane and position between r.first and r.last
    ) j
    where not r.settled @> j.position;
    get diagnostics v_count = row_count;
    return case when p_again then 0 else v_count end;
end $$;

-- A suspect was alone when its worker died: the crash is counted, and when its attempts are spent
-- it is buried. Returns how many were.
create or replace function inturn.reclaim_alone(e inturn.lease, p_now timestamptz) returns integer
language plpgsql as $$
declare
    l inturn.lane;
    p inturn.parked;
    v_errors jsonb;
    v_crashes integer;
    v_error text := format('worker %s died while running this job alone', e.worker);
begin
    select * into p from inturn.parked where token = e.token for update;
    if found then
        v_crashes := p.crashes + 1;
        v_errors := inturn.with_error(p.errors, p.attempt, p_now, e.worker, v_error);
        if p.attempt >= p.attempts_max then
            perform inturn.bury_parked(p.id, v_errors, inturn.died(v_crashes), p_now);
            return 1;
        end if;
        update inturn.parked set
            crashes = v_crashes, errors = v_errors, token = null,
            run_at = p_now + inturn.crash_delay(v_crashes)
        where id = p.id;
        return 0;
    end if;
    select * into l from inturn.lane where id = any(e.lanes) and token = e.token for update;
    if not found then
        return 0;
    end if;
    v_crashes := l.head_crashes + 1;
    v_errors := inturn.with_error(l.head_errors, l.head_attempt, p_now, e.worker, v_error);
    if l.head_attempt >= (
        select attempts_max from inturn.job where lane = l.id and position = l.head
    ) then
        perform inturn.bury_head(
            l.id, l.head, l.head_attempt, v_errors, inturn.died(v_crashes), p_now);
        return 1;
    end if;
    perform inturn.give_back(
        l.id, l.head, l.head_attempt, v_crashes, v_errors,
        p_now + inturn.crash_delay(v_crashes), p_now);
    return 0;
end $$;

-- Say why a job that was alone whenever its worker died was buried.
create or replace function inturn.died(p_crashes integer) returns text language sql immutable as $$
    select format(
        'its worker died %s while running it alone',
        case p_crashes when 1 then 'once' else format('%s times', p_crashes) end)
$$;
