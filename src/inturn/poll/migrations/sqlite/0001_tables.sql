-- A schedule: when it fires next, and the job that it then submits, as JSON.
create table poll.schedule (
    name text not null primary key,
    rule text not null,
    catch_up text not null check (catch_up in ('once', 'skip', 'all')),
    job text not null,
    alone integer not null,                   -- not while its last job is unfinished
    next_at integer not null,
    last_at integer,
    last_job text,
    paused_by text
) strict, without rowid;

-- What the running program declares: a row for each set of schedules, whichever workers have it.
create table poll.declaration (
    digest text not null primary key,
    names text not null,                      -- of the schedules: a JSON array
    sources text not null,                    -- their names: a JSON array
    seen_at integer not null
) strict, without rowid;

-- A source: how far its changes were read, and how far a walk through all of it is.
create table poll.source (
    name text not null primary key,
    job text not null,                        -- that reads its pages, as JSON
    queue text not null,                      -- of its changes
    last_job text,                            -- that a person or a run asked for
    cursor text,                              -- null: from the beginning
    page_digest text,                         -- of the last page read, if there was more
    revision integer not null default 0,     -- goes up with every write: the fence
    pages integer not null default 0,
    changes integer not null default 0,
    changed_at integer,
    succeeded_at integer,                     -- when a run last came to the end, within a minute
    walk integer not null default 0,       -- the number of the last one
    walk_state text not null default 'none'
        check (walk_state in ('none', 'walking', 'sweeping', 'held', 'done')),
    walk_cursor text,
    walk_ended_at integer,
    walk_missing integer not null default 0,   -- how many items it has not seen
    walk_swept integer not null default 0      -- how many of them it has deleted
) strict, without rowid;

-- The items of the sources as they were last seen. With row ids: keys come in no order, and writing
-- whole items all over a tree of keys took several times as long.
create table poll.shadow (
    source text not null,
    key text not null,
    version text not null,                    -- empty: the next sight is newer
    deleted integer not null check (deleted in (0, 1)),
    item text not null,
    walk integer not null,                   -- the last that saw it
    changed_at integer not null,
    primary key (source, key)
) strict;
