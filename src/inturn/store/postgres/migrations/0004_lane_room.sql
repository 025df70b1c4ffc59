-- Room in a page for three versions of every lane: as it waited, as it was claimed, as it rests.
-- The oldest cannot go while other transactions run, so with less room a lane that is put to rest
-- moves to another page, and every index has it entered anew.
alter table inturn.lane set (fillfactor = 33);

-- The same rules as before in one expression: each check is prepared anew with every statement.
alter table inturn.lane
    drop constraint lane_check, drop constraint lane_check1, drop constraint lane_check2,
    drop constraint lane_check3, drop constraint lane_check4,
    add constraint lane_holds_together check (
        head <= cursor
        and (key is not null or (token is null and ready_at is null and look_at is null
                                 and halted_at is null))
        -- A lane that cannot be claimed has no rank, so that no claim ever has to pass over it.
        and (rank_at is null or (active and token is null and ready_at is null
                                 and look_at is null and halted_at is null and paused_at is null))
        and (halted_at is null) = (halted_job is null)
        and (paused_at is null) = (paused_by is null));
