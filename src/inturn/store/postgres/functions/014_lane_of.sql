-- The keyed lane of a name, or null.
create or replace function inturn.lane_of(p_queue text, p_key text) returns bigint
language sql stable as $$
    select lane from inturn.tail where queue = p_queue and key = p_key
$$;
