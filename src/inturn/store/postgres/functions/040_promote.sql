-- Let delayed jobs that are due, and jobs whose wait is over, join their lanes.
--
-- A claim calls this, and a claim waits for no producer: a keyed job whose tail is held by an open
-- transaction stays where it is until the next claim. All jobs of one key go together or not at
-- all, in the order in which they became due.
create or replace function inturn.promote(p_queue text, p_now timestamptz,
    p_jobs_max integer) returns void
language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
    set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
    v_ids uuid[];
    v_count integer;
    v_patience text := current_setting('lock_timeout');
begin
    with due as (
        select p.id, p.key, p.run_at from inturn.parked p
        where p.queue = p_queue and p.delayed and p.run_at <= p_now
        order by p.run_at, p.id limit p_jobs_max for update skip locked
    ), free as (
        select t.lane, l.key from inturn.tail t join inturn.lane l on l.id = t.lane
        where l.queue = p_queue and l.key in (select key from due where key is not null)
        for update of t skip locked
    )
    select array_agg(d.id) into v_ids from due d
    where d.key is null
       or exists (select from free f where f.key = d.key)
       or not exists (select from inturn.lane l where l.queue = p_queue and l.key = d.key);
    if v_ids is null then
        return;
    end if;
    begin
        -- A lane that is being made by someone else right now would have to be waited for.
        perform set_config('lock_timeout', '50ms', true);
        with gone as (
            delete from inturn.parked p where p.id = any(v_ids)
            returning p.id, p.queue, p.key, p.kind, p.payload, p.priority, p.round, p.attempts_max,
                p.timeout_seconds,
                      p.enqueued_at, p.run_at
        ), jobs as (
            select array_agg(id order by run_at, id) as ids,
                array_agg(queue order by run_at, id) as queues,
                   array_agg(key order by run_at, id) as keys,
                       array_agg(kind order by run_at, id) as kinds,
                   array_agg(payload::text order by run_at, id) as payloads,
                   array_agg(priority::integer order by run_at, id) as priorities,
                   array_agg(round order by run_at, id) as rounds,
                   array_agg(attempts_max::integer order by run_at, id) as attempts,
                   array_agg(timeout_seconds order by run_at, id) as timeouts,
                   array_agg(enqueued_at order by run_at, id) as sinces
            from gone
        )
        select count(*) into v_count from jobs j,
            inturn.append(j.ids, j.queues, j.keys, j.kinds, j.payloads, j.priorities, j.rounds,
                                                  j.attempts, j.timeouts, j.sinces, p_now) a;
    exception when lock_not_available then
        null; -- next time
    end;
    perform set_config('lock_timeout', v_patience, true);
end $$;
