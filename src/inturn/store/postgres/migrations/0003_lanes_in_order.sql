-- Lanes of one rank come in the order they were made, as in SQLite, and not as their rows lie.
drop index inturn.lane_claimable;
create index lane_claimable on inturn.lane (queue, round, rank_at, id)
    where rank_at is not null and not suspect;
drop index inturn.lane_suspect;
create index lane_suspect on inturn.lane (queue, round, rank_at, id)
    where suspect and rank_at is not null;
