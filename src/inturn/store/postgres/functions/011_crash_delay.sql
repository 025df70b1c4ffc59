-- How long a job that was alone when its worker died waits before it runs again.
-- The same formula as policy/retry.py.
create or replace function inturn.crash_delay(p_crashes integer) returns interval
language sql immutable parallel safe as $$
    select make_interval(secs => least(60.0, power(2.0, least(p_crashes - 1, 10))))
$$;
