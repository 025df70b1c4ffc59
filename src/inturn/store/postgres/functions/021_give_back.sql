-- End the lease on a keyed lane at a position: that job is the head again, the rest of the run is
-- given back, and the lane is claimable at once or sleeps until p_ready_at.
create or replace function inturn.give_back(
    p_lane bigint, p_position bigint, p_attempt integer, p_crashes integer, p_errors jsonb,
    p_ready_at timestamptz, p_now timestamptz
) returns void language plpgsql as $$
begin
    update inturn.lane set
        head = p_position, cursor = p_position, token = null,
        head_attempt = p_attempt, head_crashes = p_crashes, head_errors = p_errors
    where id = p_lane;
    perform inturn.freshen(array[p_lane], p_now);
    if p_ready_at > p_now then
        update inturn.lane set ready_at = p_ready_at, rank_at = null where id = p_lane;
    end if;
end $$;
