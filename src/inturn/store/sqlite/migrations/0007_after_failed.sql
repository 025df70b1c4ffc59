-- A wait for a failure: who waits so runs when one of those it waits for is buried or cancelled.
alter table waits add column on_failure integer not null default 0 check (on_failure in (0, 1));

-- Reactions that are to run, for one of those they wait for has failed: claims let them in. Whoever
-- writes a dead letter or a cancelled job, and why ever: a trigger sees them all, and wakes those
-- who wait for work.
create table reacting (
    job blob primary key
) without rowid;

create trigger dead_failed after insert on dead
when exists (select 1 from waits where on_job = new.id and on_failure) begin
    insert or ignore into reacting select job from waits where on_job = new.id and on_failure;
    update depth set woken = woken + 1 where queue in (
        select queue from waits join blocked on blocked.id = waits.job
        where waits.on_job = new.id and waits.on_failure);
end;

create trigger cancelled_failed after insert on cancelled
when exists (select 1 from waits where on_job = new.id and on_failure) begin
    insert or ignore into reacting select job from waits where on_job = new.id and on_failure;
    update depth set woken = woken + 1 where queue in (
        select queue from waits join blocked on blocked.id = waits.job
        where waits.on_job = new.id and waits.on_failure);
end;
