-- Which worker does a background duty that one alone is to do, and until when nobody else does.
-- oldest version that still works: 8
create table inturn.duty (
    name text collate "C" primary key,
    worker text not null,
    until timestamptz not null
);
