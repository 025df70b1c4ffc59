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
    insert into inturn.dead (
        id, queue, key, kind, payload, priority, round,
        attempts_max, timeout_seconds, enqueued_at,
        attempts, errors, reason, died_at)
    select
        id, queue, key, kind, payload, priority, round,
        attempts_max, timeout_seconds, enqueued_at,
        p_attempts, p_errors, p_reason, p_now
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
        perform inturn.freshen(array[p_lane], p_now);
    end if;
end $$;
