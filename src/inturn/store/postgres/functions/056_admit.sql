-- Look once more at waits that a settle running at the same moment may not have seen, and at those
-- that a settle has left for later; up to p_waits_max of each. Returns how many it has decided.
--
-- A producer that submits a job "after" another reads that one as unfinished, while a settle of it
-- may be about to commit without having seen the new row. Neither may wait for the other: the
-- producer's transaction may stay open for long. So the wait is marked fresh, and is looked at
-- again once it is committed: the awaited job's lease is locked and written (a settle under way
-- makes us come back later; one that begins afterwards sees the row, or fails to serialize at
-- "repeatable read"), and only then its state is read for good. The same goes for a cancel or a
-- drop of what is not leased: it holds the awaited job's row where that is set aside, or its lane.
--
-- Nothing here waits for a lock. Each wait is looked at by itself, so that a job which waits for
-- many needs no moment in which all of them are quiet; and the job that waits is locked, so that of
-- two who take its last waits away the later one lets it in.
create or replace function inturn.admit(p_waits_max integer, p_now timestamptz) returns integer
language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    b record;
    v_left uuid := (select a.job from inturn.admitting a limit 1 for update skip locked);
    v_ons uuid[];   -- what is waited for …
    v_jobs uuid[];  -- … and by which job
    v_held uuid[];
    v_quiet uuid[]; -- in their order, as are those below: they are found by binary search
    v_done uuid[];
    v_never uuid[];
begin
    select array_agg(distinct w.job) into v_jobs
    from (
        (select f.job from inturn.waits f
         where f.fresh order by f.job, f.on_job limit p_waits_max)
        union all
        (select l.job from inturn.waits l
         where l.on_job = v_left order by l.on_job, l.job limit p_waits_max)
    ) w;
    v_held := array(
        select k.id from inturn.blocked k where k.id = any(v_jobs) for update skip locked);
    -- Read once the jobs are locked: from now on nobody else takes their waits away.
    select array_agg(w.on_job), array_agg(w.job) into v_ons, v_jobs
    from (
        select w.on_job, w.job
        from unnest(v_held) h(job)
        join inturn.waits w on w.job = h.job
        where w.fresh or w.on_job = v_left
        limit p_waits_max
    ) w;
    if v_jobs is not null then
        v_quiet := inturn.quiet(array(select distinct w.on_job from unnest(v_ons) w(on_job)));
        select
            array_agg(q.job order by q.job) filter (where q.state = 'done'),
            array_agg(q.job order by q.job) filter (where q.state is null or q.state = 'cancelled')
        into v_done, v_never
        from (
            select s.job, case when s.job = v_left then 'done' else s.state end
            from inturn.states(v_quiet, p_now) s
        ) q(job, state);

        -- Ranges of the primary key: with many waits of one job the planner, which knows of none
        -- while the table is young, would read all of them for each.
        delete from inturn.waits w
        using unnest(v_ons, v_jobs) p(on_job, job)
        where (w.on_job, w.job) >= (p.on_job, p.job) and (w.on_job, w.job) <= (p.on_job, p.job)
          and v_done[width_bucket(p.on_job, v_done)] = p.on_job;
        update inturn.waits w set fresh = false
        from unnest(v_ons, v_jobs) p(on_job, job)
        where (w.on_job, w.job) >= (p.on_job, p.job) and (w.on_job, w.job) <= (p.on_job, p.job)
          and v_quiet[width_bucket(p.on_job, v_quiet)] = p.on_job;
        for b in
            select distinct on (p.job) p.job, format('waits for job %s, %s', p.on_job, case
                when exists (select from inturn.cancelled c where c.id = p.on_job)
                    then 'which was cancelled'
                -- It was there when the job was accepted. Without a trace it has ended and was
                -- pruned since, and nobody knows how.
                else 'whose history was pruned too early to see'
            end) as reason
            from unnest(v_ons, v_jobs) p(on_job, job)
            where v_never[width_bucket(p.on_job, v_never)] = p.on_job
            order by p.job, p.on_job
        loop
            perform inturn.bury_blocked(array[b.job], b.reason, p_now);
        end loop;
        perform inturn.join_lanes(array(
            select distinct p.job from unnest(v_ons, v_jobs) p(on_job, job)
            where v_done[width_bucket(p.on_job, v_done)] = p.on_job), p_now);
    end if;
    delete from inturn.admitting a
    where a.job = v_left and not exists (select from inturn.waits w where w.on_job = v_left);
    return coalesce(cardinality(v_quiet), 0);
end $$;

-- Those of some jobs that nobody is settling, cancelling or dropping right now, in their order;
-- their leases and rows are ours until the commit. A lane is locked so that a cancel waits and a
-- claim does not.
create or replace function inturn.quiet(p_jobs uuid[]) returns uuid[] language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    h record;  -- leased jobs, and their tokens
    v_ours bigint[];
    v_there uuid[];
    v_free uuid[];
    v_busy uuid[];
    v_lanes bigint[];
begin
    select array_agg(t.job) as jobs, array_agg(t.token) as tokens
    into h
    from (
        select p.id as job, p.token
        from inturn.parked p
        where p.id = any(p_jobs) and p.token is not null
        union all
        select j.id, l.token
        from inturn.job j
        join inturn.lane l on l.id = j.lane
        where j.id = any(p_jobs) and l.token is not null
          and j.position >= l.head and j.position < l.cursor
        union all
        select j.id, r.token
        from inturn.job j
        cross join lateral inturn.run_of(j.lane, j.position) r
        where j.id = any(p_jobs)
    ) t;
    with ours as (
        update inturn.lease set unsettled = unsettled
        where token = any(array(
            select token from inturn.lease where token = any(h.tokens) for update skip locked))
        returning token
    )
    select coalesce(array_agg(token order by token), '{}') into v_ours from ours;
    v_there := array(
        select id from inturn.dead where id = any(p_jobs)
        union all
        select id from inturn.parked where id = any(p_jobs)
        union all
        select id from inturn.blocked where id = any(p_jobs));
    if cardinality(v_there) > 0 then
        v_free := array(
            select unnest(
                array(select d.id from inturn.dead d where d.id = any(v_there)
                      for update skip locked)
                || array(select p.id from inturn.parked p where p.id = any(v_there)
                         for update skip locked)
                || array(select b.id from inturn.blocked b where b.id = any(v_there)
                         for update skip locked)
            ) order by 1);
    end if;
    v_busy := array(
        select t.job from unnest(h.jobs, h.tokens) t(job, token)
        where v_ours[width_bucket(t.token, v_ours)] is distinct from t.token
        union all
        select t.job from unnest(v_there) t(job)
        where v_free[width_bucket(t.job, v_free)] is distinct from t.job
        order by 1);
    v_lanes := array(
        select l.id from inturn.lane l
        where l.id = any(array(
            select distinct j.lane from inturn.job j where j.id = any(p_jobs)))
        order by l.id
        for key share skip locked);
    return array(
        select q.id
        from unnest(p_jobs) q(id)
        left join lateral (select j.lane from inturn.job j where j.id = q.id limit 1) j on true
        where v_busy[width_bucket(q.id, v_busy)] is distinct from q.id
          and (j.lane is null or v_lanes[width_bucket(j.lane, v_lanes)] = j.lane)
        order by q.id);
end $$;

-- The run of an open lane in which a position is leased, if it is: runs of a lane never overlap.
create or replace function inturn.run_of(p_lane bigint, p_position bigint)
returns setof inturn.run language sql stable rows 1 as $$
    select * from (
        select * from inturn.run r
        where r.lane = p_lane and r.first <= p_position
        order by r.first desc
        limit 1
    ) r
    where r.last >= p_position
$$;
