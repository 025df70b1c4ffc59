-- oldest version that still works: 12
-- An index on whether a lane is active has every lane that comes to rest, or is claimed, entered
-- anew: short lanes were drained at 0.85 of the speed. So active lanes are found by what they wait
-- for, and a lane that a person holds by this, which changes seldom.
drop index inturn.lane_active;
create index lane_held on inturn.lane (queue) where halted_at is not null or paused_at is not null;
