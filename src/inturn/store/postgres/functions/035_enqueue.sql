-- Submit one job from any language, inside the caller's own transaction:
--
--   select inturn.enqueue('mail', 'send', '{"to": "a@b.c"}', key => 'customer-7');
--
-- Returns the job's id, or the first job's when the dedupe key is known.
create or replace function inturn.enqueue(
    queue text,
    kind text,
    payload json default 'null',
    key text default null,
    priority integer default 0,
    round integer default 0,
    delay_seconds double precision default 0,
    attempts_max integer default 5,
    timeout_seconds double precision default null,
    after uuid[] default '{}',
    dedupe text default null,
    dedupe_seconds double precision default 86400,
    now timestamptz default null
) returns uuid language plpgsql as $$
declare
    v_id uuid := inturn.uuid7();
    v_wrong text := case
        when not isfinite(now)
            then 'now must be a time'
        when coalesce(char_length(queue), 0) not between 1 and 128
            then 'queue needs 1 to 128 characters'
        when coalesce(char_length(kind), 0) not between 1 and 200
            then 'kind needs 1 to 200 characters'
        when char_length(key) not between 1 and 500
            then 'key needs 1 to 500 characters'
        when char_length(dedupe) not between 1 and 500
            then 'dedupe needs 1 to 500 characters'
        when payload is null
            then 'payload is null: use the JSON text ''null'' for nothing'
        when octet_length(payload::text) > 1048576
            then 'payload has more than 1048576 bytes'
        when payload::text ~ '\\u0000' and not inturn.is_jsonb(payload::text)
            then 'payload holds NUL (U+0000)'
        when payload::text ~* '\\ud[89a-f]' and not inturn.is_jsonb(payload::text)
            then 'payload holds a lone surrogate'
        when priority is null or priority not between -100 and 100
            then 'priority may be -100 to 100'
        when round is null or round not between 0 and 1000000000
            then 'round may be 0 to 1000000000'
        when delay_seconds is null or not delay_seconds between 0 and 316224000
            then 'delay_seconds may be 0 to 316224000'
        when delay_seconds > 0 and round > 0
            then 'a job has both a delay and a round: choose one'
        when delay_seconds > 0 and cardinality(after) > 0
            then 'a job has both a delay and after: delay the jobs it waits for'
        when attempts_max is null or attempts_max not between 1 and 1000
            then 'attempts_max may be 1 to 1000'
        when not timeout_seconds between 0.001 and 2592000
            then 'timeout_seconds may be 0.001 to 2592000'
        when dedupe_seconds is null or not dedupe_seconds between 0.001 and 31622400
            then 'dedupe_seconds may be 0.001 to 31622400'
        when after is null or cardinality(after) > 1000
            then 'after may name up to 1000 jobs'
    end;
begin
    if v_wrong is not null then
        raise exception 'this job cannot be accepted: %', v_wrong
        using errcode = 'IT005', hint = 'Nothing was stored.';
    end if;
    select a.id
    into v_id
    from inturn.accept(
        array[v_id], array[queue], array[key], array[kind], array[payload::text],
        array[priority], array[round], array[attempts_max], array[timeout_seconds],
        array[delay_seconds], array[dedupe], array[dedupe_seconds],
        array_fill(v_id, array[cardinality(after)]), after, now) a;
    return v_id;
end $$;

-- Whether text is JSON that jsonb can hold: no NUL, no lone surrogate.
create or replace function inturn.is_jsonb(p_text text) returns boolean
language plpgsql immutable as $$
begin
    perform p_text::jsonb;
    return true;
exception when others then
    return false;
end $$;
