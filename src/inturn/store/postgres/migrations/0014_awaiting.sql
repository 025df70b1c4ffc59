-- Who wants to be told when jobs of a queue end: a settle sends one notification if anybody does.
create table inturn.awaiting (
    listener uuid not null,
    queue text collate "C" not null,
    until timestamptz not null,
    primary key (listener, queue)
);
