-- Depth per queue, counted by triggers as it changes, and never by code.
--
-- A queue's status and the check of its bounds read one row, whatever the backlog. Right because
-- there is one writer at a time: nobody waits for a counter, and a rollback takes it back as well.
-- check() counts everything afresh and compares.

create table depth (
    queue text not null primary key,
    waiting integer not null default 0,                         -- from cursors on, not cancelled
    lanes integer not null default 0 check (lanes >= 0),        -- active ones
    halted integer not null default 0 check (halted >= 0),      -- lanes; their heads are in waiting
    resting integer not null default 0 check (resting >= 0),    -- heads between attempts, likewise
    scheduled integer not null default 0 check (scheduled >= 0), -- parked: no attempt, no rank yet
    retrying integer not null default 0 check (retrying >= 0),  -- parked: between attempts
    fresh integer not null default 0 check (fresh >= 0),        -- parked: no attempt, to be claimed
    blocked integer not null default 0 check (blocked >= 0),
    dead integer not null default 0 check (dead >= 0),
    woken integer not null default 0                            -- times it got something to claim
) strict, without rowid;

create trigger queue_made after insert on queue begin
    insert into depth (queue) values (new.name);
end;

create trigger queue_opened after update of gate, paused_at on queue
when new.gate > old.gate or (new.paused_at is null and old.paused_at is not null) begin
    update depth set woken = woken + 1 where queue = new.name;
end;

create trigger tail_moved after update of last on tail begin
    update depth set waiting = waiting + new.last - old.last
    where queue = (select queue from lane where id = new.lane);
end;

create trigger lane_moved
after update of cursor, active, rank_at, token, head_attempt, halted_at on lane begin
    update depth set
        waiting = waiting + old.cursor - new.cursor
            + (select count(*) from cancelled
               where lane = new.id and position >= old.cursor and position < new.cursor)
            - (select count(*) from cancelled
               where lane = new.id and position >= new.cursor and position < old.cursor),
        lanes = lanes + new.active - old.active,
        halted = halted + (new.halted_at is not null) - (old.halted_at is not null),
        resting = resting
            + (new.token is null and new.halted_at is null and new.head_attempt > 0)
            - (old.token is null and old.halted_at is null and old.head_attempt > 0),
        woken = woken + (new.rank_at is not null and old.rank_at is null)
    where queue = new.queue;
end;

create trigger place_cancelled after insert on cancelled when new.lane is not null begin
    update depth set waiting = waiting - 1 where queue = new.queue;
end;

create trigger parked_added after insert on parked begin
    update depth set
        scheduled = scheduled
            + (new.token is null and new.attempt = 0 and new.rank_at is null),
        retrying = retrying + (new.token is null and new.attempt > 0),
        fresh = fresh + (new.rank_at is not null and new.attempt = 0),
        woken = woken + (new.rank_at is not null)
    where queue = new.queue;
end;

create trigger parked_changed after update on parked begin
    update depth set
        scheduled = scheduled
            + (new.token is null and new.attempt = 0 and new.rank_at is null)
            - (old.token is null and old.attempt = 0 and old.rank_at is null),
        retrying = retrying + (new.token is null and new.attempt > 0)
                            - (old.token is null and old.attempt > 0),
        fresh = fresh + (new.rank_at is not null and new.attempt = 0)
                      - (old.rank_at is not null and old.attempt = 0),
        woken = woken + (new.rank_at is not null and old.rank_at is null)
    where queue = new.queue;
end;

create trigger parked_removed after delete on parked begin
    update depth set
        scheduled = scheduled
            - (old.token is null and old.attempt = 0 and old.rank_at is null),
        retrying = retrying - (old.token is null and old.attempt > 0),
        fresh = fresh - (old.rank_at is not null and old.attempt = 0)
    where queue = old.queue;
end;

create trigger blocked_added after insert on blocked begin
    update depth set blocked = blocked + 1 where queue = new.queue;
end;

create trigger blocked_removed after delete on blocked begin
    update depth set blocked = blocked - 1 where queue = old.queue;
end;

create trigger dead_added after insert on dead begin
    update depth set dead = dead + 1 where queue = new.queue;
end;

create trigger dead_removed after delete on dead begin
    update depth set dead = dead - 1 where queue = old.queue;
end;
