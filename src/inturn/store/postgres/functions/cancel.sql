-- Cancel a job that is not running; return the state it has now, or null if there is no such job.
--
-- A job may move while we wait for what holds it: from its lane to parked by a settle, from parked
-- into a lease by a claim, to another position by a retried dead letter. So each place is locked,
-- and looked at again under its lock; if the job is no longer there, we begin anew.
create or replace function inturn.cancel(p_job uuid, p_by text, p_now timestamptz) returns text
language plpgsql as $$
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    v_reason text := format('cancelled by %s', p_by);
    j inturn.job;
    l inturn.lane;
    v_state text;
begin
    loop
        with gone as (
            delete from inturn.blocked where id = p_job returning *
        ), unparked as (
            delete from inturn.parked where id = p_job and token is null returning *
        )
        insert into inturn.cancelled (whole_job, cancelled_at, cancelled_by, reason)
        select whole_job, v_now, p_by, v_reason
        from gone
        union all
        select whole_job, v_now, p_by, v_reason
        from unparked;
        exit when found;
        select * into j from inturn.job where id = p_job;
        if not found then
            return inturn.state(p_job, v_now);
        end if;
        select * into l from inturn.lane where id = j.lane for update;
        v_state := inturn.state(p_job, v_now);
        if v_state is null or v_state in ('running', 'done', 'dead', 'cancelled') then
            return v_state;
        end if;
        insert into inturn.cancelled (whole_job, lane, position, cancelled_at, cancelled_by, reason)
        select whole_job, lane, position, v_now, p_by, v_reason
        from inturn.log
        where id = p_job and lane = l.id and position = j.position and position >= l.cursor
          and not exists (select from inturn.dead where id = p_job);
        if found then
            update inturn.lane set cancelled_last = j.position
            where id = l.id and cancelled_last < j.position;
            if j.position = l.cursor and l.token is null and l.halted_at is null then
                perform inturn.pass(l.id, null);
                perform inturn.refresh(array[l.id], v_now);
            end if;
            exit;
        end if;
    end loop;
    delete from inturn.waits where job = p_job;
    perform inturn.forsake(p_job, format('waits for job %s, which was %s', p_job, v_reason), v_now);
    return 'cancelled';
end $$;
