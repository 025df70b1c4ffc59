-- What a queue says about itself since its limits count over all workers, and what code has said.
alter table queue add column replay text not null default 'tail'
    check (replay in ('tail', 'none'));
alter table queue add column suspects text not null default 'alone'
    check (suspects in ('alone', 'again'));
alter table queue add column running_max integer check (running_max > 0);
alter table queue add column rate integer check (rate > 0);
alter table queue add column rate_seconds real check (rate_seconds > 0);
alter table queue add column local integer not null default 0 check (local in (0, 1));
alter table queue add column declared text not null default '{}'; -- by code, when last written
alter table queue add column starts integer not null default 0; -- rows of start, added up

-- Jobs that a claim started in a queue with a rate. A row goes when the window has passed it.
create table start (
    queue text not null,
    started_at integer not null,
    jobs integer not null check (jobs > 0),
    primary key (queue, started_at)
) strict, without rowid;

-- Leases of a queue with limits: their unsettled jobs are those that run.
alter table lease add column limited integer not null default 0 check (limited in (0, 1));
create index lease_limited on lease (queue) where limited;
create trigger place_free after update of unsettled on lease
when old.limited and new.unsettled < old.unsettled begin
    update depth set woken = woken + 1 where queue = new.queue;
end;
create trigger places_free after delete on lease when old.limited begin
    update depth set woken = woken + 1 where queue = old.queue;
end;

-- Whose lease ran out once, where suspects = again: the next time they are suspects.
alter table lane add column reclaimed_last integer not null default 0; -- keyed: up to here
alter table parked add column reclaimed integer not null default 0 check (reclaimed in (0, 1));
