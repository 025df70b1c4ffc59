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
