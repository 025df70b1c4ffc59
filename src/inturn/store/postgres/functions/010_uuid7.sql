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
