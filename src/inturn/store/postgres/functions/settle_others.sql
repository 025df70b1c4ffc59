-- Settle what was not done, one outcome after another: retry, bury, release. Returns how many jobs
-- left each token's lease. The caller holds the lease rows' locks and has settled what was done.
create or replace function inturn.settle_others(p_others jsonb, p_worker text, p_now timestamptz)
returns table (token bigint, jobs bigint) language plpgsql as $$
#variable_conflict use_column
declare
    o record;
    l inturn.lane;
begin
    for o in
        select x.*
        from jsonb_to_recordset(p_others) as x(
            token bigint, lane bigint, "position" bigint, verdict text,
            error text, traceback text, reason text, delay double precision, counted boolean)
    loop
        token := o.token;
        jobs := 1;
        if o.lane is null then
            perform inturn.settle_parked(
                o.token, o.verdict, o.error, o.traceback, o.reason, o.delay, o.counted,
                p_worker, p_now);
            return next;
            continue;
        end if;
        select * into l from inturn.lane k where k.id = o.lane;
        if not found then
            perform inturn.lost(array[o.token]);
        end if;
        if l.key is null then
            perform inturn.settle_open(
                o.token, o.lane, o.position,
                o.verdict, o.error, o.traceback, o.reason, o.delay, o.counted, p_worker, p_now);
            return next;
        elsif l.token = o.token and l.head = o.position then
            perform inturn.settle_head(
                l, o.verdict, o.error, o.traceback, o.reason, o.delay, o.counted, p_worker, p_now);
            jobs := l.cursor - o.position;
            return next;
        elsif l.token is distinct from o.token and o.verdict = 'release' and exists (
            select from jsonb_to_recordset(p_others)
                as x(token bigint, lane bigint, "position" bigint)
            where x.token = o.token and x.lane = o.lane and x.position < o.position
        ) then
            -- What stands behind a job that was not done was given back with it, a moment ago.
            null;
        else
            perform inturn.lost(array[o.token]);
        end if;
    end loop;
end $$;

-- Settle a job that was leased from parked, other than as done.
create or replace function inturn.settle_parked(
    p_token bigint, p_verdict text, p_error text, p_traceback text, p_reason text,
    p_delay double precision, p_counted boolean, p_worker text, p_now timestamptz
) returns void language plpgsql as $$
declare
    p inturn.parked;
    v_errors jsonb;
begin
    select * into p from inturn.parked k where k.token = p_token for update;
    if not found then
        perform inturn.lost(array[p_token]);
    end if;
    v_errors := case
        when p_verdict = 'release' then p.errors
        else inturn.with_error(p.errors, p.attempt, p_now, p_worker, p_error, p_traceback)
    end;
    if p_verdict = 'bury' then
        perform inturn.bury_parked(p.id, v_errors, p_reason, p_now);
    elsif p_verdict = 'retry' and p_counted and p.attempt >= p.attempts_max then
        perform inturn.bury_parked(p.id, v_errors, inturn.spent(p.attempt, p_error), p_now);
    else
        update inturn.parked k set
            token = null, errors = v_errors, run_at = p_now + make_interval(secs => p_delay),
            attempt = case
                when p_verdict = 'retry' and p_counted then k.attempt
                else k.attempt - 1
            end,
            suspect = k.suspect and p_verdict = 'release'
        where k.id = p.id;
    end if;
end $$;

-- Settle a job of an open lane, other than as done. Nothing waits behind it: it leaves the lane,
-- and waits by itself in parked if it is to run again.
create or replace function inturn.settle_open(
    p_token bigint, p_lane bigint, p_position bigint, p_verdict text, p_error text,
    p_traceback text, p_reason text, p_delay double precision, p_counted boolean, p_worker text,
    p_now timestamptz
) returns void language plpgsql as $$
declare
    j inturn.log;
    v_attempt integer := case
        when p_verdict = 'release' then 0
        when p_verdict = 'retry' and not p_counted then 0
        else 1
    end;
    v_errors jsonb := case
        when p_verdict <> 'release' then
            inturn.with_error(null, 1, p_now, p_worker, p_error, p_traceback)
    end;
begin
    update inturn.run r set
        settled = r.settled + int8multirange(int8range(p_position, p_position, '[]'))
    where r.token = p_token and r.lane = p_lane and p_position between r.first and r.last
      and not r.settled @> p_position;
    if not found then
        perform inturn.lost(array[p_token]);
    end if;
    select * into strict j from inturn.log g where g.lane = p_lane and g.position = p_position;
    if p_verdict = 'bury' or (p_verdict = 'retry' and p_counted and 1 >= j.attempts_max) then
        insert into inturn.dead (whole_job, attempts, errors, reason, died_at)
        values (
            j.id, j.queue, j.key, j.kind, j.payload, j.priority, j.round,
            j.attempts_max, j.timeout_seconds, j.enqueued_at,
            1, v_errors,
            case when p_verdict = 'bury' then p_reason else inturn.spent(1, p_error) end,
            p_now);
    else
        insert into inturn.parked (whole_job, delayed, run_at, attempt, errors)
        values (
            j.id, j.queue, j.key, j.kind, j.payload, j.priority, j.round,
            j.attempts_max, j.timeout_seconds, j.enqueued_at,
            false, p_now + make_interval(secs => p_delay), v_attempt, v_errors);
    end if;
end $$;

-- Settle the head of a keyed lane, other than as done. The lane's lease ends with it: what stands
-- behind the head is given back.
create or replace function inturn.settle_head(
    l inturn.lane, p_verdict text, p_error text, p_traceback text, p_reason text,
    p_delay double precision, p_counted boolean, p_worker text, p_now timestamptz
) returns void language plpgsql as $$
declare
    v_attempts_max integer;
    v_errors jsonb := case
        when p_verdict = 'release' then l.head_errors
        else inturn.with_error(l.head_errors, l.head_attempt, p_now, p_worker, p_error, p_traceback)
    end;
begin
    select g.attempts_max
    into strict v_attempts_max
    from inturn.job g
    where g.lane = l.id and g.position = l.head;
    if p_verdict = 'bury' then
        perform inturn.bury_head(l.id, l.head, l.head_attempt, v_errors, p_reason, p_now);
    elsif p_verdict = 'retry' and p_counted and l.head_attempt >= v_attempts_max then
        perform inturn.bury_head(
            l.id, l.head, l.head_attempt, v_errors,
            inturn.spent(l.head_attempt, p_error), p_now);
    else
        perform inturn.give_back(
            l.id, l.head,
            case
                when p_verdict = 'retry' and p_counted then l.head_attempt
                else l.head_attempt - 1
            end,
            l.head_crashes, v_errors, p_now + make_interval(secs => p_delay), p_now);
    end if;
end $$;

-- Set a job from parked aside as a dead letter.
create or replace function inturn.bury_parked(
    p_job uuid, p_errors jsonb, p_reason text, p_now timestamptz
) returns void language sql as $$
    with gone as (
        delete from inturn.parked where id = p_job returning *
    )
    insert into inturn.dead (whole_job, attempts, errors, reason, died_at)
    select whole_job, attempt, coalesce(p_errors, '[]'), p_reason, p_now
    from gone
$$;

-- Say why a job whose attempts are spent was buried.
create or replace function inturn.spent(p_attempts integer, p_error text) returns text
language sql immutable as $$
    select case
        when p_attempts > 1 then format('failed %s times, the last time: %s', p_attempts, p_error)
        else 'failed: ' || p_error
    end
$$;

-- Say that a lease is gone; nothing of the call is written.
create or replace function inturn.lost(p_tokens bigint[]) returns void language plpgsql as $$
begin
    raise exception 'the lease is gone, or no longer holds these positions: %', p_tokens
    using errcode = 'IT001', detail = to_jsonb(p_tokens)::text;
end $$;

-- Refuse a settlement that carries a job of another lease. Each of p_jobs names a token, a lane
-- (null: the job was leased from parked), a position, and the job that is said to stand there.
create or replace function inturn.check_jobs(p_jobs jsonb) returns void language plpgsql as $$
declare
    v_wrong jsonb;
begin
    select jsonb_build_object('token', x.token, 'position', x.position, 'job', x.job)
    into v_wrong
    from jsonb_to_recordset(p_jobs) as x(token bigint, lane bigint, "position" bigint, job uuid)
    left join inturn.job j on j.lane = x.lane and j.position = x.position
    left join inturn.parked k on x.lane is null and k.token = x.token
    where j.id <> x.job or k.id <> x.job
    limit 1;
    if found then
        raise exception 'a settlement carries a job of another lease: %', v_wrong
        using errcode = 'IT008', detail = v_wrong::text;
    end if;
end $$;

-- Set the head of a keyed lane aside as a dead letter, its lease ended; the queue's on_dead decides
-- whether the lane goes on or halts until a person does.
create or replace function inturn.bury_head(
    p_lane bigint, p_position bigint, p_attempts integer, p_errors jsonb, p_reason text,
    p_now timestamptz
) returns void language plpgsql as $$
declare
    v_job uuid;
    v_on_dead text;
begin
    insert into inturn.dead (whole_job, attempts, errors, reason, died_at)
    select whole_job, p_attempts, p_errors, p_reason, p_now
    from inturn.log
    where lane = p_lane and position = p_position
    returning id into strict v_job;
    select q.on_dead
    into v_on_dead
    from inturn.lane l
    join inturn.queue q on q.name = l.queue
    where l.id = p_lane;
    if v_on_dead = 'halt' then
        update inturn.lane set
            head = p_position, cursor = p_position, token = null, rank_at = null, ready_at = null,
            head_attempt = 0, head_crashes = 0, head_errors = null,
            halted_at = p_now, halted_job = v_job
        where id = p_lane;
    else
        perform inturn.pass(p_lane, p_position);
        update inturn.lane set token = null where id = p_lane;
        perform inturn.refresh(array[p_lane], p_now);
    end if;
end $$;
