-- A version 7 UUID (RFC 9562) for jobs that are submitted from SQL: milliseconds, then the
-- microseconds within them, then chance.
create or replace function inturn.uuid7() returns uuid language sql volatile parallel safe as $$
    select encode(
        overlay(overlay(
            uuid_send(gen_random_uuid())
            placing substring(int8send(floor(extract(epoch from t) * 1000)::bigint) from 3)
                from 1 for 6)
            placing int2send((28672 + (extract(microseconds from t)::bigint % 1000) * 4)::int2)
                from 7 for 2),
        'hex')::uuid
    from clock_timestamp() as t
$$;

-- How long a job that was alone when its worker died waits before it runs again.
-- The same formula as policy/retry.py.
create or replace function inturn.crash_delay(p_crashes integer) returns interval
language sql immutable parallel safe as $$
    select make_interval(secs => least(60.0, power(2.0, least(p_crashes - 1, 10))))
$$;

-- A lane's place among claimable ones: when its head was accepted, a higher priority counting as
-- that much more waiting. It never has to be changed while the lane waits, so nothing starves.
create or replace function inturn.rank(
    p_since timestamptz, p_priority integer, p_aging_seconds double precision
) returns timestamptz language sql immutable parallel safe as $$
    select p_since - make_interval(secs => p_priority * p_aging_seconds)
$$;

-- A history of errors with one more attempt in it: the last 20, as in sqlite/rows.py, with a
-- traceback of the first error and of the last.
create or replace function inturn.with_error(
    p_errors jsonb, p_attempt integer, p_at timestamptz, p_worker text, p_error text,
    p_traceback text default null
) returns jsonb language sql stable parallel safe as $$
    with history as (
        select case
            when jsonb_array_length(p_errors) > 1 then p_errors #- '{-1,traceback}'
            else coalesce(p_errors, '[]'::jsonb)
        end || jsonb_build_object(
            'attempt', p_attempt, 'at', p_at, 'worker', p_worker, 'error', p_error,
            'number', coalesce((p_errors -> -1 ->> 'number')::integer, 0) + 1,
            'traceback', p_traceback) as errors
    )
    select case when jsonb_array_length(errors) <= 20 then errors else errors - 0 end
    from history
$$;

-- The keyed lane of a name, or null.
create or replace function inturn.lane_of(p_queue text, p_key text) returns bigint
language sql stable as $$
    select lane from inturn.tail where queue = p_queue and key = p_key
$$;

-- An array of one made as long as is wanted; any other as it is.
create or replace function inturn.spread(p_values anyarray, p_count integer) returns anyarray
language sql immutable parallel safe as $$
    select case
        when cardinality(p_values) = 1 and p_count > 1
            then array_fill(p_values[1], array[p_count])
        else p_values
    end
$$;

-- Whether this is part of a longer transaction, as settle noted. Such a one puts no lane to sleep:
-- that would hold the lane's tail until the commit, and two transactions that each settle in one
-- lane and enqueue into the other's would wait for each other. A later claim does it.
create or replace function inturn.within() returns boolean language sql stable as $$
    select coalesce(current_setting('inturn.within', true), '') = 'yes'
$$;
