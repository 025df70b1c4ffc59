-- What a queue says about itself since its limits count over all workers, and what code has said.
alter table inturn.queue
    add column replay text not null default 'tail' check (replay in ('tail', 'none')),
    add column suspects text not null default 'alone' check (suspects in ('alone', 'again')),
    add column running_max integer check (running_max > 0),
    add column rate integer check (rate > 0),
    add column rate_seconds double precision check (rate_seconds > 0),
    add column local boolean not null default false,
    add column declared jsonb not null default '{}'; -- by code, when last written

-- A queue with limits. Whoever claims from it locks its row, and so knows what is left.
create table inturn.limited (
    queue text collate "C" primary key,
    starts bigint not null default 0    -- rows of start, added up
) with (fillfactor = 50);

-- Jobs that a claim started in a queue with a rate. A row goes when the window has passed it.
create table inturn.start (
    queue text collate "C" not null,
    started_at timestamptz not null,
    jobs bigint not null check (jobs > 0),
    primary key (queue, started_at)
);

-- Leases of a queue with limits: their unsettled jobs are those that run.
alter table inturn.lease add column limited boolean not null default false;
create index lease_limited on inturn.lease (queue) where limited;

-- Whose lease ran out once, where suspects = again: the next time they are suspects.
alter table inturn.lane add column reclaimed_last bigint not null default 0; -- keyed: up to here
alter table inturn.parked add column reclaimed boolean not null default false;
