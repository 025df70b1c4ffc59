-- The tables: an append-only log of jobs, lanes with cursors, leases. Where a job is, is its state.
--
--   at or after its lane's cursor                     waiting
--   in blocked                                        blocked
--   inside a lease (lane.token, run, parked.token)    running
--   in parked                                         scheduled or retrying
--   in dead, cancelled                                dead, cancelled
--   behind the cursor and nowhere else                done
--
-- The same tables as PostgreSQL's, with SQLite's means: times are microseconds since 1970 (UTC),
-- ids the 16 bytes of a UUID, lists and errors JSON text. One writer at a time, so there is one
-- open lane per (queue, kind, priority, round), and depth can be counted as it changes.

create table queue (
    name text not null primary key check (length(name) between 1 and 128),
    gate integer not null default 0 check (gate >= 0), -- the highest open round
    on_dead text not null default 'skip' check (on_dead in ('skip', 'halt')),
    depth_max integer check (depth_max > 0),
    lane_depth_max integer check (lane_depth_max > 0),
    keep_done_seconds real not null default 86400 check (keep_done_seconds >= 0),
    aging_seconds real not null default 300 check (aging_seconds > 0),
    paused_at integer,
    paused_by text,
    check ((paused_at is null) = (paused_by is null))
) strict, without rowid;

-- The consumers' row. A keyed lane (key is not null) has one lease at a time, kept here:
-- positions head .. cursor - 1 are leased under token. An open lane's leases are rows of run.
create table lane (
    id integer primary key autoincrement,     -- never given twice: cancelled places outlive lanes
    queue text not null,
    key text check (length(key) between 1 and 500),
    kind text not null,                       -- open: of all its jobs; keyed: its head's
    priority integer not null,                -- likewise
    round integer not null,                   -- likewise
    head integer not null default 1,          -- keyed: first position not settled
    cursor integer not null default 1,        -- first position not claimed
    active integer not null default 0 check (active in (0, 1)), -- has something to do
    rank_at integer,                          -- its place among claimable lanes; null: it is none
    waiting_since integer,                    -- when its first waiting job was accepted; null: none
    ready_at integer,                         -- keyed: its head waits to retry until then
    token integer,                            -- keyed: the lease on it
    head_attempt integer not null default 0 check (head_attempt >= 0), -- keyed: of its head
    head_crashes integer not null default 0 check (head_crashes >= 0),
    head_errors text,
    suspect_last integer not null default 0,  -- keyed: up to here, jobs are leased alone
    halted_at integer,                        -- keyed: its head is dead and a person must decide
    halted_job blob,
    paused_at integer,
    paused_by text,
    check (head <= cursor),
    check (key is not null or (token is null and ready_at is null and halted_at is null)),
    check (token is not null or key is null or head = cursor),
    -- A lane that cannot be claimed has no rank, so that no claim ever has to pass over it.
    check (rank_at is null or (active and token is null and ready_at is null
                               and halted_at is null and paused_at is null)),
    check ((halted_at is null) = (halted_job is null)),
    check ((paused_at is null) = (paused_by is null))
) strict;

create unique index lane_key on lane (queue, key) where key is not null;
create unique index lane_open on lane (queue, kind, priority, round) where key is null;
create index lane_claimable on lane (queue, round, rank_at, id, kind)
    where rank_at is not null and suspect_last < head;
create index lane_suspect on lane (queue, rank_at, id)
    where rank_at is not null and suspect_last >= head;
create index lane_sleeping on lane (queue, ready_at) where ready_at is not null;
create index lane_waiting on lane (queue, waiting_since) where waiting_since is not null;
create index lane_active on lane (queue, round) where active;
create index lane_queue on lane (queue);

-- The producers' row: the last position given, and its round, below which no later one may fall.
create table tail (
    lane integer primary key,
    last integer not null default 0,
    round integer not null default 0
) strict;

-- The log. Only appended to, and pruned in ranges.
create table job (
    lane integer not null,
    position integer not null check (position > 0),
    id blob not null check (length(id) = 16),
    kind text not null,
    payload text not null,
    priority integer not null,
    round integer not null,
    attempts_max integer not null,
    timeout_seconds real,
    enqueued_at integer not null,
    primary key (lane, position)
) strict, without rowid;
create unique index job_id on job (id);

-- The log's jobs whole, as the tables below keep them.
create view logged as
select job.id, lane.queue, lane.key, job.kind, job.payload, job.priority, job.round,
       job.attempts_max, job.timeout_seconds, job.enqueued_at, job.lane, job.position
from job join lane on lane.id = job.lane;

-- One row a claim, and one for each job that is leased alone or from parked.
create table lease (
    token integer primary key autoincrement,  -- only goes up, and is never given back: the fence
    queue text not null,
    worker text not null,
    claimed_at integer not null,
    until integer not null,
    lanes text not null,                      -- the keyed lanes under it
    unsettled integer not null check (unsettled > 0),
    alone integer not null default 0 check (alone in (0, 1))
) strict;
create index lease_until on lease (until);

-- A run of an open lane under a lease, and which of its positions are settled already: a JSON list
-- of [first, last], in order, never touching.
create table run (
    token integer not null,
    lane integer not null,
    first integer not null,
    last integer not null,
    settled text not null default '[]',
    primary key (token, lane),
    check (first <= last)
) strict, without rowid;
create unique index run_lane on run (lane, first);

-- A job that waits by itself: delayed, or an open lane's job between attempts. The whole job, so
-- that its lane's history may be pruned meanwhile.
create table parked (
    id blob not null primary key check (length(id) = 16),
    queue text not null,
    key text,
    kind text not null,
    payload text not null,
    priority integer not null,
    round integer not null,
    attempts_max integer not null,
    timeout_seconds real,
    enqueued_at integer not null,
    delayed integer not null check (delayed in (0, 1)), -- joins its lane when it is due
    run_at integer not null,
    attempt integer not null default 0 check (attempt >= 0),
    crashes integer not null default 0 check (crashes >= 0),
    errors text,
    suspect integer not null default 0 check (suspect in (0, 1)),
    token integer,
    rank_at integer,                          -- its place among what is due; null: it is not yet
    check (not delayed or (token is null and rank_at is null)),
    check (token is null or rank_at is null)
) strict, without rowid;
create index parked_due on parked (queue, run_at, id) where token is null and rank_at is null;
create index parked_claimable on parked (queue, rank_at, id)
    where rank_at is not null and not suspect;
create index parked_suspect on parked (queue, rank_at, id) where rank_at is not null and suspect;
create index parked_fresh on parked (queue, enqueued_at) where rank_at is not null and attempt = 0;
create index parked_queue on parked (queue, round);
create unique index parked_token on parked (token) where token is not null;

create table blocked (
    id blob not null primary key check (length(id) = 16),
    queue text not null,
    key text,
    kind text not null,
    payload text not null,
    priority integer not null,
    round integer not null,
    attempts_max integer not null,
    timeout_seconds real,
    enqueued_at integer not null
) strict, without rowid;
create index blocked_queue on blocked (queue, round);

create table waits (
    on_job blob not null check (length(on_job) = 16),
    job blob not null check (length(job) = 16),
    primary key (on_job, job)
) strict, without rowid;
create index waits_job on waits (job);

create table dead (
    id blob not null primary key check (length(id) = 16),
    queue text not null,
    key text,
    kind text not null,
    payload text not null,
    priority integer not null,
    round integer not null,
    attempts_max integer not null,
    timeout_seconds real,
    enqueued_at integer not null,
    attempts integer not null,
    errors text not null,
    reason text not null,
    died_at integer not null
) strict, without rowid;
create index dead_list on dead (queue, died_at, id);
create index dead_age on dead (died_at, id);

create table cancelled (
    id blob not null primary key check (length(id) = 16),
    queue text not null,
    key text,
    kind text not null,
    payload text not null,
    priority integer not null,
    round integer not null,
    attempts_max integer not null,
    timeout_seconds real,
    enqueued_at integer not null,
    lane integer,                             -- where it stood in line, if it did
    position integer,
    cancelled_at integer not null,
    cancelled_by text not null,
    reason text not null,
    check ((lane is null) = (position is null))
) strict, without rowid;
create unique index cancelled_place on cancelled (lane, position) where lane is not null;
create index cancelled_age on cancelled (queue, cancelled_at);

create table dedupe (
    queue text not null,
    dedupe text not null,
    job blob not null,
    digest blob not null,
    until integer not null,
    primary key (queue, dedupe)
) strict, without rowid;
create index dedupe_until on dedupe (until);

create table result (
    job blob not null primary key,
    value text not null,
    until integer not null
) strict, without rowid;
create index result_until on result (until);

-- How far a running job is, as its handler said under a lease; stale when that is gone.
create table progress (
    job blob not null primary key check (length(job) = 16),
    token integer not null,
    fraction real not null check (fraction between 0 and 1),
    note text not null,
    said_at integer not null
) strict, without rowid;

-- One row a minute: with one writer a settle can add to it at once.
create table stat (
    queue text not null,
    minute_at integer not null,
    kind text not null,
    done integer not null,
    retried integer not null,
    buried integer not null,
    released integer not null,
    seconds_sum real not null,
    durations text not null,
    primary key (queue, minute_at, kind)
) strict, without rowid;

create table worker (
    id text not null primary key,
    host text not null,
    pid integer not null,
    version text not null,
    queues text not null,
    kinds text not null,
    running integer not null,
    started_at integer not null,
    seen_at integer not null
) strict, without rowid;

-- How far a lane was finished when a prune looked: what lies at or before an old mark may go.
create table mark (
    lane integer not null,
    position integer not null,
    marked_at integer not null,
    primary key (lane, position)
) strict, without rowid;
create index mark_age on mark (marked_at);
