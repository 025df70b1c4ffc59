-- A lane's place among claimable ones: when its head was accepted, a higher priority counting as
-- that much more waiting. It never has to be changed while the lane waits, so nothing starves.
create or replace function inturn.rank(
    p_since timestamptz, p_priority integer, p_aging_seconds double precision
) returns timestamptz language sql immutable parallel safe as $$
    select p_since - make_interval(secs => p_priority * p_aging_seconds)
$$;
