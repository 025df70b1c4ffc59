-- The tables: an append-only log of jobs, lanes with cursors, leases. Where a job is, is its state.
--
--   at or after its lane's cursor                     waiting
--   in blocked                                        blocked
--   inside a lease (lane.token, run, parked.token)    running
--   in parked                                         scheduled or retrying
--   in dead, cancelled                                dead, cancelled
--   behind the cursor and nowhere else                done
--
-- Names are compared byte by byte, whatever the database's collation: quick, the same order as in
-- SQLite, and no index goes wrong when the operating system learns to sort anew.

create table inturn.queue (
    name text collate "C" primary key check (char_length(name) between 1 and 128),
    gate integer not null default 0 check (gate >= 0), -- the highest open round
    on_dead text not null default 'skip' check (on_dead in ('skip', 'halt')),
    depth_max bigint check (depth_max > 0),
    lane_depth_max bigint check (lane_depth_max > 0),
    keep_done_seconds double precision not null default 86400 check (keep_done_seconds >= 0),
    aging_seconds double precision not null default 300 check (aging_seconds > 0),
    paused_at timestamptz,
    paused_by text,
    check ((paused_at is null) = (paused_by is null))
);

-- The consumers' row. A keyed lane (key is not null) has one lease at a time, kept here:
-- positions head .. cursor - 1 are leased under token. An open lane's leases are rows of run.
-- Columns of fixed length come first: what stands behind a text is dear to reach.
create table inturn.lane (
    id bigint primary key,                    -- its tail's
    head bigint not null default 1,           -- keyed: first position not settled
    cursor bigint not null default 1,         -- first position not claimed
    suspect_last bigint not null default 0,   -- keyed: up to here, jobs are leased alone
    cancelled_last bigint not null default 0, -- beyond it, no position is cancelled
    head_attempt integer not null default 0,  -- keyed: attempts counted for its head
    head_crashes integer not null default 0,
    round integer not null,                   -- open: of all its jobs; keyed: its head's
    priority smallint not null,               -- likewise
    active boolean not null default false,    -- has, or may have, something to do
    suspect boolean not null default false,   -- keyed: its head is to be leased alone
    queue text collate "C" not null,
    kind text collate "C" not null,           -- open: of all its jobs; keyed: its head's
    key text collate "C" check (char_length(key) between 1 and 500),
    rank_at timestamptz,                      -- its place among claimable lanes, or null
    waiting_since timestamptz,                -- keyed: when its head was accepted
    ready_at timestamptz,                     -- keyed: its head waits to retry until then
    look_at timestamptz,                      -- keyed: its tail is in a producer's hands; look then
    token bigint,                             -- keyed: the lease on it
    head_errors jsonb,
    halted_at timestamptz,                    -- keyed: its head is dead and a person must decide
    halted_job uuid,
    paused_at timestamptz,
    paused_by text,
    check (head <= cursor),
    check (key is not null or (token is null and ready_at is null and look_at is null
                               and halted_at is null)),
    -- A lane that cannot be claimed has no rank, so that no claim ever has to pass over it.
    check (rank_at is null or (active and token is null and ready_at is null and look_at is null
                               and halted_at is null and paused_at is null)),
    check ((halted_at is null) = (halted_job is null)),
    check ((paused_at is null) = (paused_by is null))
) with (fillfactor = 50);

create index lane_open on inturn.lane (queue, kind, priority, round) where key is null;
create index lane_claimable on inturn.lane (queue, round, rank_at)
    where rank_at is not null and not suspect;
create index lane_suspect on inturn.lane (queue, round, rank_at) where suspect
    and rank_at is not null;
create index lane_sleeping on inturn.lane (queue, ready_at) where ready_at is not null;
create index lane_unsure on inturn.lane (queue, look_at) where look_at is not null;

-- The producers' row. Positions are taken from it under its lock, so that within a lane the order
-- of positions is the order of commits. last round: rounds never fall within a lane.
-- A lane is found by its name here and not in its other row, which changes its place in an index
-- with every claim and so has to be entered anew in each.
create table inturn.tail (
    lane bigint generated always as identity primary key,
    last bigint not null default 0,
    round integer not null default 0,
    queue text collate "C" not null,
    key text collate "C"
) with (fillfactor = 50);
create unique index tail_key on inturn.tail (queue, key) where key is not null;

-- The log. Only appended to, and pruned in ranges. A payload is JSON, which whoever accepts it has
-- seen to; as text it is given out without being written anew. Columns of fixed length come first,
-- and the one that is mostly null behind them.
create table inturn.job (
    lane bigint not null,
    position bigint not null,
    id uuid not null,
    enqueued_at timestamptz not null,
    round integer not null,
    priority smallint not null,
    attempts_max smallint not null,
    kind text collate "C" not null,
    payload text not null,
    timeout_seconds double precision,
    primary key (lane, position),
    constraint job_id unique (id)
);

-- One row a claim, and one for each job that is leased alone or from parked.
create sequence inturn.token;
create table inturn.lease (
    token bigint primary key,
    queue text collate "C" not null,
    worker text not null,
    claimed_at timestamptz not null,
    until timestamptz not null,
    lanes bigint[] not null,          -- the keyed lanes under it
    unsettled integer not null check (unsettled > 0),
    alone boolean not null default false
) with (fillfactor = 70, toast_tuple_target = 8160); -- a long list of lanes is not worth packing
create index lease_until on inturn.lease (until);

-- A run of an open lane under a lease, and which of its positions are settled already.
create table inturn.run (
    token bigint not null,
    lane bigint not null,
    first bigint not null,
    last bigint not null,
    settled int8multirange not null default '{}',
    primary key (token, lane),
    check (first <= last)
) with (fillfactor = 70);
create index run_lane on inturn.run (lane, first);

-- A job that waits by itself: delayed, or an open lane's job between attempts. The whole job, so
-- that its lane's history may be pruned meanwhile.
create table inturn.parked (
    id uuid primary key,
    queue text collate "C" not null,
    key text collate "C",
    kind text collate "C" not null,
    payload text not null,
    priority smallint not null,
    round integer not null,
    attempts_max smallint not null,
    timeout_seconds double precision,
    enqueued_at timestamptz not null,
    delayed boolean not null,             -- never was in a lane; joins its lane when due
    run_at timestamptz not null,
    attempt integer not null default 0,
    crashes integer not null default 0,
    errors jsonb,
    suspect boolean not null default false,
    token bigint,
    check (not delayed or token is null)
);
create index parked_due on inturn.parked (queue, run_at) where token is null and not suspect
    and not delayed;
create index parked_delayed on inturn.parked (queue, run_at) where delayed;
create index parked_suspect on inturn.parked (queue, run_at) where token is null and suspect;
create unique index parked_token on inturn.parked (token) where token is not null;

create table inturn.blocked (
    id uuid primary key,
    queue text collate "C" not null,
    key text collate "C",
    kind text collate "C" not null,
    payload text not null,
    priority smallint not null,
    round integer not null,
    attempts_max smallint not null,
    timeout_seconds double precision,
    enqueued_at timestamptz not null,
    fresh boolean not null default true   -- not yet checked against a settle that ran meanwhile
);
create index blocked_fresh on inturn.blocked (id) where fresh;
create index blocked_queue on inturn.blocked (queue, round);

create table inturn.waits (
    on_job uuid not null,
    job uuid not null,
    primary key (on_job, job)
);
create index waits_job on inturn.waits (job);

create table inturn.dead (
    id uuid primary key,
    queue text collate "C" not null,
    key text collate "C",
    kind text collate "C" not null,
    payload text not null,
    priority smallint not null,
    round integer not null,
    attempts_max smallint not null,
    timeout_seconds double precision,
    enqueued_at timestamptz not null,
    attempts integer not null,
    errors jsonb not null,
    reason text not null,
    died_at timestamptz not null
);
create index dead_list on inturn.dead (queue, died_at, id);

create table inturn.cancelled (
    id uuid primary key,
    queue text collate "C" not null,
    key text collate "C",
    kind text collate "C" not null,
    payload text not null,
    priority smallint not null,
    round integer not null,
    attempts_max smallint not null,
    timeout_seconds double precision,
    enqueued_at timestamptz not null,
    lane bigint,                          -- where it stood in line, if it did
    position bigint,
    cancelled_at timestamptz not null,
    cancelled_by text not null,
    reason text not null
);
create unique index cancelled_place on inturn.cancelled (lane, position) where lane is not null;
create index cancelled_age on inturn.cancelled (queue, cancelled_at);

create table inturn.dedupe (
    queue text collate "C" not null,
    dedupe text collate "C" not null,
    job uuid not null,
    digest bytea not null,
    until timestamptz not null,
    primary key (queue, dedupe)
);
create index dedupe_until on inturn.dedupe (until);

create table inturn.result (
    job uuid primary key,
    value json not null,
    until timestamptz not null
);
create index result_until on inturn.result (until);

-- How far a running job is, as its handler said under a lease; stale when that is gone. Written
-- over in place about once a second, hence the room in its pages.
create table inturn.progress (
    job uuid primary key,
    token bigint not null,
    fraction double precision not null check (fraction between 0 and 1),
    note text not null,
    said_at timestamptz not null
) with (fillfactor = 50);

-- One row a settle, folded into one a minute by prune: nobody waits for a counter's lock.
create table inturn.stat (
    queue text collate "C" not null,
    kind text collate "C" not null,
    minute_at timestamptz not null,
    done bigint not null,
    retried bigint not null,
    buried bigint not null,
    released bigint not null,
    seconds_sum double precision not null,
    durations bigint[] not null
);
create index stat_minute on inturn.stat (queue, minute_at);

create table inturn.worker (
    id text collate "C" primary key,
    host text not null,
    pid bigint not null,
    version text not null,
    queues text[] not null,
    kinds text[] not null,
    running integer not null,
    started_at timestamptz not null,
    seen_at timestamptz not null
);

-- How far a lane was finished when a prune looked: what lies at or before an old mark may go.
create table inturn.mark (
    lane bigint not null,
    position bigint not null,
    marked_at timestamptz not null,
    primary key (lane, position)
);
create index mark_age on inturn.mark (marked_at);

-- A log row with the names its lane knows: what parked, dead and cancelled keep of a job.
create view inturn.log as
select j.id, l.queue, l.key, j.kind, j.payload, j.priority, j.round, j.attempts_max,
       j.timeout_seconds, j.enqueued_at, j.lane, j.position
from inturn.job j join inturn.lane l on l.id = j.lane;

-- What one look over the claimable lanes takes: a run of each, how many jobs that makes, how many
-- of the positions are cancelled; and how many lanes it locked, be they empty.
create type inturn.taken as (
    jobs integer, holes bigint, locked integer,
    lanes bigint[], keys text[], firsts bigint[], lasts bigint[], attempts integer[]
);

-- What a claim returns, a row a token: its lanes as arrays, and its jobs over all its lanes, in
-- order: their ids, 16 bytes each; their payloads as one text, with the character U+001E between
-- them, which no JSON text holds; when they were accepted (epochs: seconds, a double precision
-- each), or null when all were at one time. counts and positions are null when there are no gaps;
-- attempts are those of each lane's first job, the others' is 1. Most jobs of a claim are alike, so
-- kind, priority and so on are the first job's, and only the jobs that differ from it (odd: their
-- ids) have theirs spelt out.
create type inturn.claimed as (
    token bigint, until timestamptz, alone boolean,
    lanes bigint[], keys text[], firsts bigint[], lasts bigint[], attempts integer[],
    counts integer[], positions bigint[], ids bytea, payloads text,
    kind text collate "C", priority smallint, round integer,
    attempts_max smallint, timeout_seconds double precision, enqueued_at timestamptz,
    odd uuid[], odd_kinds text[], odd_priorities smallint[], odd_rounds integer[],
    odd_attempts_max smallint[], odd_timeouts double precision[], epochs bytea
);
