-- Where a job is, is its state; null when it is nowhere.
create or replace function inturn.states(p_jobs uuid[], p_now timestamptz)
returns table (job uuid, state text) language plpgsql stable
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_bitmapscan = off as $$
begin
    return query
    select q.id, case
        when exists (select from inturn.dead d where d.id = q.id) then 'dead'
        when exists (select from inturn.cancelled c where c.id = q.id) then 'cancelled'
        when exists (select from inturn.blocked b where b.id = q.id) then 'blocked'
        else coalesce((
            select case
                when p.token is not null then 'running'
                when p.attempt > 0 then 'retrying'
                when p.run_at > p_now then 'scheduled'
                else 'waiting'
            end
            from inturn.parked p
            where p.id = q.id
        ), (
            select case
                when l.key is not null and j.position < l.head then 'done'
                when l.key is not null and j.position < l.cursor then 'running'
                when l.key is not null and l.token is null and j.position = l.cursor
                    and l.head_attempt > 0 then 'retrying'
                when j.position >= l.cursor then 'waiting'
                when exists (
                    select from inturn.run_of(j.lane, j.position) r
                    where not r.settled @> j.position
                ) then 'running'
                else 'done'
            end
            from inturn.job j
            join inturn.lane l on l.id = j.lane
            where j.id = q.id
        ))
    end
    from (select distinct j.id from unnest(p_jobs) j(id)) q;
end $$;

create or replace function inturn.state(p_job uuid, p_now timestamptz) returns text
language plpgsql stable as $$
begin
    return (select s.state from inturn.states(array[p_job], p_now) s);
end $$;
