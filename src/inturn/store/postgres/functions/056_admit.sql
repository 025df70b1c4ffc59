-- Look once more at blocked jobs that a settle running at the same moment may not have seen.
--
-- A producer that submits a job "after" another reads that one as unfinished, while a settle of it
-- may be about to commit without having seen the new row. Neither may wait for the other: the
-- producer's transaction may stay open for long. So the row is marked fresh, and is looked at again
-- once it is committed: each dependency's lease is locked and written (a settle under way makes us
-- come back later; one that begins afterwards sees the row, or fails to serialize at "repeatable
-- read"), and only then its state is read for good. The same goes for a cancel or a drop of what is
-- not leased: it holds the dependency's row where that is set aside, or its lane.
create or replace function inturn.admit(p_jobs_max integer, p_now timestamptz) returns integer
language plpgsql as $$
declare
    b record;
    d record;
    v_count integer := 0;
begin
    for b in
        select id from inturn.blocked
        where fresh
        order by id
        limit p_jobs_max
        for update skip locked
    loop
        -- Only this job's own rows are touched: an admit that waited for another's would deadlock.
        if not inturn.quiet(array(select on_job from inturn.waits where job = b.id)) then
            continue;
        end if;
        update inturn.blocked set fresh = false where id = b.id;
        for d in
            select w.on_job, inturn.state(w.on_job, p_now) as state
            from inturn.waits w
            where w.job = b.id
        loop
            if d.state = 'done' then
                delete from inturn.waits where job = b.id and on_job = d.on_job;
            elsif d.state is null or d.state = 'cancelled' then
                -- It was there when the job was accepted. Without a trace it has ended and was
                -- pruned since, and nobody knows how.
                perform inturn.bury_blocked(
                    array[b.id],
                    format('waits for job %s, %s', d.on_job, case
                        when d.state is null then 'whose history was pruned too early to see'
                        else 'which was cancelled'
                    end),
                    p_now);
                exit;
            end if;
        end loop;
        perform inturn.join_lanes(array[b.id], p_now);
        v_count := v_count + 1;
    end loop;
    return v_count;
end $$;

-- Whether none of these jobs is being settled, cancelled or dropped right now; their leases and
-- rows are ours until the commit. A lane is locked so that a cancel waits and a claim does not.
create or replace function inturn.quiet(p_jobs uuid[]) returns boolean language plpgsql as $$
declare
    v_tokens bigint[];
    v_lanes bigint[];
    v_locked integer;
begin
    v_tokens := array(
        select token
        from inturn.parked
        where id = any(p_jobs) and token is not null
        union
        select l.token
        from inturn.job j
        join inturn.lane l on l.id = j.lane
        where j.id = any(p_jobs) and l.token is not null
          and j.position >= l.head and j.position < l.cursor
        union
        select r.token
        from inturn.job j
        join inturn.run r on r.lane = j.lane and j.position between r.first and r.last
        where j.id = any(p_jobs));
    update inturn.lease set unsettled = unsettled
    where token in (
        select token from inturn.lease where token = any(v_tokens) for update skip locked);
    get diagnostics v_locked = row_count;
    if v_locked < cardinality(v_tokens) then
        return false;
    end if;
    v_locked :=
        cardinality(array(
            select id from inturn.dead where id = any(p_jobs) for update skip locked))
        + cardinality(array(
            select id from inturn.parked where id = any(p_jobs) for update skip locked))
        + cardinality(array(
            select id from inturn.blocked where id = any(p_jobs) for update skip locked));
    if v_locked < (select count(*) from inturn.dead where id = any(p_jobs))
        + (select count(*) from inturn.parked where id = any(p_jobs))
        + (select count(*) from inturn.blocked where id = any(p_jobs))
    then
        return false;
    end if;
    v_lanes := array(select distinct lane from inturn.job where id = any(p_jobs));
    return cardinality(v_lanes) = cardinality(array(
        select id from inturn.lane where id = any(v_lanes) for key share skip locked));
end $$;
