-- A wait for a failure: who waits so runs when one of those it waits for is buried or cancelled.
alter table inturn.waits add column on_failure boolean not null default false;
create index waits_on_failure on inturn.waits (on_job, job) where on_failure;

-- The first hundred of what a job waits for are read in order, of up to 50,000.
drop index inturn.waits_job;
create index waits_job on inturn.waits (job, on_job);

-- Blocked jobs whose wait has ended other than by what is done: recheck lets them in, or buries
-- them. Only added to by those who bury and cancel, so that they wait for nobody: hence no key.
create table inturn.reacting (
    id bigint generated always as identity primary key,
    job uuid not null
);
create index reacting_job on inturn.reacting (job);

-- Whoever writes a dead letter or a cancelled job, and why ever: a trigger sees them all. It is
-- part of the tables, as is what it runs.
create function inturn.note_failures() returns trigger language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
    v_queues text[];
begin
    with noted as (
        insert into inturn.reacting (job)
        select w.job
        from failed f
        join inturn.waits w on w.on_job = f.id and w.on_failure
        returning job
    )
    select array_agg(distinct b.queue)
    into v_queues
    from noted n
    join inturn.blocked b on b.id = n.job;
    perform pg_notify('inturn', q) from unnest(v_queues) q;
    return null;
end $$;
create trigger note_failures after insert on inturn.dead
    referencing new table as failed for each statement execute function inturn.note_failures();
create trigger note_failures after insert on inturn.cancelled
    referencing new table as failed for each statement execute function inturn.note_failures();
