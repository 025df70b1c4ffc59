-- The slow sweep: lanes that are inactive although a job waits in them. It must find nothing, ever;
-- if it does, it mends it, and says so.
create or replace function inturn.mend(p_now timestamptz) returns bigint language plpgsql as $$
declare
    v_lanes bigint[];
begin
    v_lanes := array(
        select l.id
        from inturn.lane l
        join inturn.tail t on t.lane = l.id
        where not l.active and t.last >= l.cursor
        for update of l skip locked);
    if cardinality(v_lanes) > 0 then
        update inturn.lane set active = true where id = any(v_lanes);
        perform inturn.freshen(v_lanes, p_now);
    end if;
    return cardinality(v_lanes);
end $$;
