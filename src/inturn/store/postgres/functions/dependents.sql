-- The jobs that wait for some that are being settled, and for which, in the order of the settled, a
-- thousand pairs at most; and whether there are more. The jobs are locked, so that of two settles
-- the later one sees what the other deletes: in the order of their ids; but one that waits for many
-- only if nobody else has it, or settles of all that it waits for would go one by one.
--
-- A settle has them right behind its leases, before it tries a tail: they may be in the hands of a
-- longer transaction that has settled, too, and that enqueues next.
create or replace function inturn.hold_waiting(
    p_done uuid[], out ons uuid[], out jobs uuid[], out more boolean
) language plpgsql set plans = by_index as $$
declare
    v_many uuid[];
    v_held uuid[];
begin
    -- Written as a range of the primary key: with many jobs waiting for one other, statistics would
    -- have the planner read all of them for each job that nobody waits for.
    select array_agg(w.on_job), array_agg(w.job) into ons, jobs
    from (
        select w.on_job, w.job
        from unnest(p_done) d
        cross join lateral (
            select on_job, job from inturn.waits
            where (on_job, job) >= (d, '00000000-0000-0000-0000-000000000000'::uuid)
              and (on_job, job) <= (d, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
            order by on_job, job
            limit 1001
        ) w
        limit 1001
    ) w;
    more := cardinality(jobs) > 1000;
    ons := ons[:1000];
    jobs := jobs[:1000];
    if jobs is null then
        return;
    end if;
    v_many := array(
        select j from unnest(jobs) j
        where exists (select from inturn.waits w where w.job = j offset 50)
        order by j);
    perform from inturn.blocked b
    where b.id = any(jobs) and v_many[width_bucket(b.id, v_many)] is distinct from b.id
    order by b.id
    for update;
    if cardinality(v_many) > 0 then
        v_held := array(
            select b.id from inturn.blocked b where b.id = any(v_many) for update skip locked);
        if cardinality(v_held) < cardinality(array(select distinct j from unnest(v_many) j)) then
            more := true;
            select array_agg(p.on_job), array_agg(p.job) into ons, jobs
            from unnest(ons, jobs) p(on_job, job)
            where v_many[width_bucket(p.job, v_many)] is distinct from p.job
               or p.job = any(v_held);
        end if;
    end if;
end $$;

-- Jobs are done: those that waited for them, which are locked, and for nothing else, may join their
-- lanes. Only their waits are taken away: one that came after they were locked is fresh. If there
-- were more waits, they are left for recheck, so that no settle takes long.
create or replace function inturn.unblock(
    p_done uuid[], p_ons uuid[], p_jobs uuid[], p_more boolean, p_now timestamptz
) returns void language plpgsql set plans = by_index as $$
declare
    v_reactions uuid[];
begin
    with gone as (
        delete from inturn.waits w
        using unnest(p_ons, p_jobs) p(on_job, job)
        where (w.on_job, w.job) >= (p.on_job, p.job) and (w.on_job, w.job) <= (p.on_job, p.job)
        returning w.job, w.on_failure
    )
    select array_agg(distinct g.job) into v_reactions from gone g where g.on_failure;
    if v_reactions is null then
        perform inturn.admit(p_jobs, p_now);
    else
        perform inturn.admit(
            array(select unnest(p_jobs) except select unnest(v_reactions)), p_now);
        perform inturn.spare(v_reactions, p_now);
    end if;
    if p_more then
        insert into inturn.admitting (job)
        select d from unnest(p_done) d
        where exists (select from inturn.waits w where w.on_job = d)
        order by d
        on conflict do nothing;
        perform inturn.notify_waiting(p_done);
    elsif exists (select from inturn.admitting) then
        perform inturn.recheck(1000, p_now);  -- others may have left them while we had the job
    end if;
end $$;

-- Wake those who wait for queues in which jobs wait for these: a claim is to let them in.
create or replace function inturn.notify_waiting(p_jobs uuid[]) returns void language sql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
    select pg_notify('inturn', q.queue)
    from (
        select distinct b.queue
        from unnest(p_jobs) d
        cross join lateral (select w.job from inturn.waits w where w.on_job = d limit 100) w
        join inturn.blocked b on b.id = w.job
    ) q
$$;

-- Let blocked jobs that wait for nothing any more join their lanes: by way of parked, as due at
-- once; and from there now, or with a later claim if a producer's open transaction holds the lane's
-- tail, for a settle must not wait for that.
create or replace function inturn.admit(p_jobs uuid[], p_now timestamptz) returns void
language plpgsql set plans = by_index as $$
declare
    v_woken text[];
begin
    with free as (
        delete from inturn.blocked b
        where b.id = any(p_jobs)
          and not exists (select from inturn.waits w where w.job = b.id)
        returning *
    ), joined as (
        insert into inturn.parked (whole_job, delayed, run_at)
        select whole_job, true, p_now
        from free
        returning queue
    )
    select array_agg(distinct queue) into v_woken from joined;
    if v_woken is null then
        return;
    end if;
    -- At other isolation levels a tail that has moved could not be locked. And a longer transaction
    -- would hold it until its commit: two that each settle and then enqueue into a lane that the
    -- other's dependents joined would wait for each other.
    if current_setting('transaction_isolation') = 'read committed' and not inturn.within() then
        perform inturn.wake_parked(q, p_now, 1000) from unnest(v_woken) q;
    end if;
    perform pg_notify('inturn', q) from unnest(v_woken) q;
end $$;

-- Of reactions, which are locked, cancel those that wait for nothing any more: nothing has failed.
-- A job that waits for such a one to be done is buried, later: it may be in the hands of others.
create or replace function inturn.spare(p_jobs uuid[], p_now timestamptz) returns void
language plpgsql set plans = by_index as $$
begin
    with gone as (
        delete from inturn.blocked b
        where b.id = any(p_jobs)
          and not exists (select from inturn.waits w where w.job = b.id)
          and not exists (select from inturn.reacting r where r.job = b.id)
        returning *
    ), spared as (
        insert into inturn.cancelled (whole_job, cancelled_at, cancelled_by, reason)
        select
            whole_job, p_now, 'inturn',
            'cancelled, for nothing has failed of what it was to react to'
        from gone
        returning id
    )
    insert into inturn.reacting (job)
    select w.job from spared s join inturn.waits w on w.on_job = s.id and not w.on_failure;
end $$;

-- Let in reactions, which are locked: one of those that each waits for has failed.
create or replace function inturn.react(p_jobs uuid[], p_now timestamptz) returns void
language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
begin
    delete from inturn.waits w where w.job = any(p_jobs);
    perform inturn.admit(p_jobs, p_now);
end $$;

-- Let in the reactions that were noted when something failed, up to p_jobs_max; and bury what waits
-- for a reaction that was not needed. Waits for no lock: what others hold is left for later.
create or replace function inturn.react_noted(p_jobs_max integer, p_now timestamptz)
returns void language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    b record;
    v_noted bigint[];
    v_jobs uuid[];
    v_held uuid[];
begin
    select array_agg(n.id), array_agg(n.job) into v_noted, v_jobs
    from (
        select r.id, r.job from inturn.reacting r
        order by r.id limit p_jobs_max for update skip locked
    ) n;
    if v_noted is null then
        return;
    end if;
    v_held := array(
        select k.id from inturn.blocked k where k.id = any(v_jobs) for update skip locked);
    for b in
        select distinct on (w.job) w.job, w.on_job, coalesce(c.reason, 'cancelled') as reason
        from unnest(v_held) h(job)
        join inturn.waits w on w.job = h.job and not w.on_failure
        left join inturn.cancelled c on c.id = w.on_job
        order by w.job, c.id nulls last
    loop
        perform inturn.bury_blocked(
            array[b.job], format('waits for job %s, which was %s', b.on_job, b.reason), p_now);
    end loop;
    perform inturn.react(v_held, p_now);
    delete from inturn.reacting r
    where r.id = any(v_noted)
      and not exists (select from inturn.blocked k where k.id = r.job);
end $$;

-- A job will never be done: those that wait for it are buried with the reason. Their own dependents
-- stay blocked, for a dead letter can be retried.
--
-- Its caller holds a lane, or other jobs that wait, for which a settle may wait. So these are only
-- tried: with one of them in a settle's hands, the call is undone, and the store tries it again.
create or replace function inturn.forsake(
    p_job uuid, p_reason text, p_now timestamptz
) returns void language plpgsql set plans = by_index as $$
declare
    v_jobs uuid[] := array(
        select job from inturn.waits where on_job = p_job and not on_failure);
    v_held uuid[];
begin
    if cardinality(v_jobs) = 0 then
        return;
    end if;
    v_held := array(select id from inturn.blocked where id = any(v_jobs) for update skip locked);
    if cardinality(v_held) < (select count(*) from inturn.blocked where id = any(v_jobs)) then
        raise exception 'what waits for job % is in the hands of others', p_job
        using errcode = 'serialization_failure', hint = 'Try again.';
    end if;
    perform inturn.bury_blocked(v_held, p_reason, p_now);
end $$;

-- Bury blocked jobs, whose rows are locked.
create or replace function inturn.bury_blocked(
    p_jobs uuid[], p_reason text, p_now timestamptz
) returns void language plpgsql set plans = by_index as $$
begin
    with gone as (
        delete from inturn.blocked b where b.id = any(p_jobs) returning *
    )
    insert into inturn.dead (whole_job, attempts, errors, reason, died_at)
    select whole_job, 0, '[]', p_reason, p_now
    from gone;
    delete from inturn.waits where job = any(p_jobs);
end $$;

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
-- A reaction (after_failed) is looked at likewise: it is let in when what it waits for has failed.
--
-- Nothing here waits for a lock. Each wait is looked at by itself, so that a job which waits for
-- many needs no moment in which all of them are quiet; and the job that waits is locked, so that of
-- two who take its last waits away the later one lets it in. Fresh waits are taken in the order of
-- what is waited for. If somebody has all of what a slice waits for, the slice is passed over, with
-- whatever else waits for the same jobs: an open settle holds up what waits for its own jobs alone.
create or replace function inturn.recheck(p_waits_max integer, p_now timestamptz) returns integer
language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    b record;
    v_left uuid[] := array(
        select l.job from (
            select a.job from inturn.admitting a limit 1000 for update skip locked) l
        order by l.job);
    v_left_ons uuid[];  -- what is waited for of those …
    v_left_jobs uuid[]; -- … and by which job
    v_fresh_ons uuid[]; -- likewise, of a slice of fresh waits
    v_fresh_jobs uuid[];
    v_passed uuid := '00000000-0000-0000-0000-000000000000';
    v_ons uuid[];       -- likewise, of those whose jobs are locked …
    v_jobs uuid[];
    v_failures boolean[];  -- … and whether for a failure
    v_awaited uuid[];
    v_waiting uuid[];
    v_quiet uuid[]; -- in their order, as are those below: they are found by binary search
    v_held uuid[];
    v_done uuid[];
    v_never uuid[];
    v_failed uuid[];
    v_ended uuid[];
    v_spared uuid[];
begin
    perform inturn.react_noted(p_waits_max, p_now);
    select array_agg(l.on_job), array_agg(l.job) into v_left_ons, v_left_jobs
    from (
        select l.on_job, l.job
        from unnest(v_left) d
        cross join lateral (
            select l.on_job, l.job from inturn.waits l
            where l.on_job = d order by l.on_job, l.job limit p_waits_max) l
        limit p_waits_max
    ) l;
    for i in 1..10 loop
        select array_agg(f.on_job order by f.on_job), array_agg(f.job order by f.on_job)
        into v_fresh_ons, v_fresh_jobs
        from (
            select f.on_job, f.job from inturn.waits f
            where f.fresh and f.on_job > v_passed
            order by f.on_job, f.job limit p_waits_max
        ) f;
        v_quiet := null;
        v_awaited := array(select distinct w.on_job from unnest(v_fresh_ons) w(on_job));
        v_waiting := array(select distinct w.job from unnest(v_fresh_jobs || v_left_jobs) w(job));
        if cardinality(v_awaited) < cardinality(v_waiting) then  -- the fewer are tried first
            v_quiet := inturn.quiet(v_awaited);
            v_waiting := array(
                select f.job from unnest(v_fresh_ons, v_fresh_jobs) f(on_job, job)
                where v_quiet[width_bucket(f.on_job, v_quiet)] = f.on_job
                union
                select unnest(v_left_jobs));
        end if;
        v_held := array(
            select h.id
            from unnest(array(
                select k.id from inturn.blocked k where k.id = any(v_waiting)
                for update skip locked)) h(id)
            order by h.id);
        if v_quiet is null and cardinality(v_held) > 0 then
            v_quiet := inturn.quiet(v_awaited);
        end if;
        exit when v_quiet is null or cardinality(v_quiet) > 0
            or v_fresh_ons is null or cardinality(v_fresh_ons) < p_waits_max;
        v_passed := v_fresh_ons[p_waits_max];
    end loop;
    -- Read once the jobs are locked: from now on nobody else takes their waits away.
    select array_agg(w.on_job), array_agg(w.job), array_agg(w.on_failure)
    into v_ons, v_jobs, v_failures
    from (
        select * from unnest(v_fresh_ons, v_fresh_jobs)
        union
        select * from unnest(v_left_ons, v_left_jobs)
    ) p(on_job, job)
    cross join lateral (
        select w.on_job, w.job, w.on_failure, w.fresh from inturn.waits w
        where (w.on_job, w.job) >= (p.on_job, p.job) and (w.on_job, w.job) <= (p.on_job, p.job)
        limit 1
    ) w
    where v_held[width_bucket(p.job, v_held)] = p.job
      and (w.fresh or v_left[width_bucket(w.on_job, v_left)] = w.on_job);
    if v_jobs is not null then
        select
            array_agg(q.job order by q.job) filter (where q.state = 'done'),
            array_agg(q.job order by q.job) filter (where q.state is null or q.state = 'cancelled'),
            array_agg(q.job order by q.job) filter (where q.state in ('dead', 'cancelled'))
        into v_done, v_never, v_failed
        from (
            select unnest(v_left), 'done'
            union
            select s.job, s.state from inturn.states(v_quiet, p_now) s
            where v_left[width_bucket(s.job, v_left)] is distinct from s.job
        ) q(job, state);

        -- Ranges of the primary key: with many waits of one job the planner, which knows of none
        -- while the table is young, would read all of them for each.
        with gone as (
            delete from inturn.waits w
            using unnest(v_ons, v_jobs) p(on_job, job)
            where (w.on_job, w.job) >= (p.on_job, p.job) and (w.on_job, w.job) <= (p.on_job, p.job)
              and (v_done[width_bucket(p.on_job, v_done)] = p.on_job
                   -- Pruned since, and not known to have failed: as if done.
                   or w.on_failure
                      and v_never[width_bucket(p.on_job, v_never)] = p.on_job
                      and v_failed[width_bucket(p.on_job, v_failed)] is distinct from p.on_job)
            returning w.job, w.on_failure
        )
        select
            array_agg(distinct g.job) filter (where not g.on_failure),
            array_agg(distinct g.job) filter (where g.on_failure)
        into v_ended, v_spared
        from gone g;
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
            from unnest(v_ons, v_jobs, v_failures) p(on_job, job, on_failure)
            where v_never[width_bucket(p.on_job, v_never)] = p.on_job and not p.on_failure
            order by p.job, p.on_job
        loop
            perform inturn.bury_blocked(array[b.job], b.reason, p_now);
        end loop;
        perform inturn.admit(v_ended, p_now);
        if true = any(v_failures) then
            perform inturn.react(array(
                select distinct p.job
                from unnest(v_ons, v_jobs, v_failures) p(on_job, job, on_failure)
                where v_failed[width_bucket(p.on_job, v_failed)] = p.on_job and p.on_failure),
                p_now);
            perform inturn.spare(v_spared, p_now);
        end if;
    end if;
    delete from inturn.admitting a
    where a.job = any(v_left) and not exists (select from inturn.waits w where w.on_job = a.job);
    if num_nonnulls(v_ended, v_spared) > 0 then
        perform inturn.notify_waiting(v_left);  -- for the rest, if there is one
    end if;
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
