-- Where a job is, is its state; null when it is nowhere. ?1 is its id, ?2 the time.
-- A job that is set aside keeps its row in the log, so the log is looked at last.
select coalesce(
    (select 'dead' from dead where id = ?1),
    (select 'cancelled' from cancelled where id = ?1),
    (select 'blocked' from blocked where id = ?1),
    (select case when token is not null then 'running'
                 when attempt > 0 then 'retrying'
                 when run_at > ?2 then 'scheduled'
                 else 'waiting' end
     from parked where id = ?1),
    (select case when lane.key is not null and job.position < lane.head then 'done'
                 when lane.key is not null and job.position < lane.cursor then 'running'
                 when lane.key is not null and job.position = lane.cursor
                      and lane.head_attempt > 0 then 'retrying'
                 when job.position >= lane.cursor then 'waiting'
                 when exists (
                     select 1 from run
                     where run.lane = job.lane and job.position between run.first and run.last
                       and not exists (
                           select 1 from json_each(run.settled) as settled
                           where job.position between json_extract(settled.value, '$[0]')
                                                  and json_extract(settled.value, '$[1]'))
                 ) then 'running'
                 else 'done' end
     from job join lane on lane.id = job.lane where job.id = ?1))
