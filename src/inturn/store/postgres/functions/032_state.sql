-- Where a job is, is its state; null when it is nowhere.
create or replace function inturn.state(p_job uuid, p_now timestamptz) returns text
language plpgsql stable as $$
declare
    v_state text;
begin
    if exists (select from inturn.dead where id = p_job) then return 'dead'; end if;
    if exists (select from inturn.cancelled where id = p_job) then return 'cancelled'; end if;
    if exists (select from inturn.blocked where id = p_job) then return 'blocked'; end if;
    select case
        when p.token is not null then 'running'
        when p.attempt > 0 then 'retrying'
        when p.run_at > p_now then 'scheduled'
        else 'waiting'
    end
    into v_state
    from inturn.parked p
    where p.id = p_job;
    if found then
        return v_state;
    end if;
    select case
        when l.key is not null and j.position < l.head then 'done'
        when l.key is not null and j.position < l.cursor then 'running'
        when l.key is not null and l.token is null and j.position = l.cursor and l.head_attempt > 0
            then 'retrying'
        when j.position >= l.cursor then 'waiting'
        when exists (
            select from inturn.run_of(j.lane, j.position) r where not r.settled @> j.position
        ) then 'running'
        else 'done'
    end
    into v_state
    from inturn.job j
    join inturn.lane l on l.id = j.lane
    where j.id = p_job;
    return v_state;
end $$;
