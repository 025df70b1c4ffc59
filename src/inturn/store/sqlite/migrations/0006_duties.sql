-- Which worker does a background duty that one alone is to do, and until when nobody else does.
-- oldest version that still works: 4
create table duty (
    name text not null primary key,
    worker text not null,
    until integer not null
) strict, without rowid;
