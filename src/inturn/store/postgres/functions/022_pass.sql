-- Go on behind a keyed lane's head: the next position, and the cancelled ones after it, are passed.
-- With p_position null, only pass cancelled positions at the cursor (open lanes too).
create or replace function inturn.pass(p_lane bigint, p_position bigint) returns void
language plpgsql as $$
declare
    v_next bigint;
begin
    select coalesce(p_position + 1, cursor) into v_next from inturn.lane where id = p_lane;
    while exists (select from inturn.cancelled where lane = p_lane and position = v_next) loop
        v_next := v_next + 1;
    end loop;
    update inturn.lane set
        cursor = v_next,
        head = case when key is null then head else v_next end,
        head_attempt = 0, head_crashes = 0, head_errors = null
    where id = p_lane and (cursor <> v_next or p_position is not null);
end $$;
