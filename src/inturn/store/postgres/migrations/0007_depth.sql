-- What stands in the active lanes of a queue that has many, as counted at most a second ago.
create index lane_active on inturn.lane (queue, round) where active;
create table inturn.depth (
    queue text collate "C" primary key,
    counted_at timestamptz not null,
    waiting bigint not null,
    retrying bigint not null,
    lanes bigint not null,
    halted bigint not null,
    oldest_at timestamptz
) with (fillfactor = 50);
