-- A schedule: when it fires next, and the job that it then submits, as JSON.
create table poll.schedule (
    name text not null primary key,
    rule text not null,
    catch_up text not null check (catch_up in ('once', 'skip', 'all')),
    job text not null,
    alone boolean not null,                   -- not while its last job is unfinished
    next_at timestamptz not null,
    last_at timestamptz,
    last_job text,
    paused_by text
);

-- What the running program declares: a row for each set of schedules, whichever workers have it.
create table poll.declaration (
    digest text not null primary key,
    names text not null,                      -- of the schedules: a JSON array
    sources text not null,                    -- their names: a JSON array
    seen_at timestamptz not null
);

-- A source: how far its changes were read, and how far a walk through all of it is.
create table poll.source (
    name text not null primary key,
    job text not null,                        -- that reads its pages, as JSON
    queue text not null,                      -- of its changes
    last_job text,                            -- that a person or a run asked for
    cursor text,                              -- null: from the beginning
    page_digest text,                         -- of the last page read, if there was more
    revision bigint not null default 0,     -- goes up with every write: the fence
    pages bigint not null default 0,
    changes bigint not null default 0,
    changed_at timestamptz,
    succeeded_at timestamptz,                 -- when a run last came to the end, within a minute
    walk bigint not null default 0,        -- the number of the last one
    walk_state text not null default 'none'
        check (walk_state in ('none', 'walking', 'sweeping', 'held', 'done')),
    walk_cursor text,
    walk_ended_at timestamptz,
    walk_missing bigint not null default 0,   -- how many items it has not seen
    walk_swept bigint not null default 0      -- how many of them it has deleted
);

-- The items of the sources as they were last seen.
create table poll.shadow (
    source text not null,
    key text not null,
    version text not null,                    -- empty: the next sight is newer
    deleted boolean not null,
    item text not null,
    walk bigint not null,                   -- the last that saw it
    changed_at timestamptz not null,
    primary key (source, key)
);
