-- Say what is wrong with a payload that comes from SQL; null if nothing is. What jsonb holds and
-- Python does not read (a huge number, nesting more than 200 deep) makes its job a dead letter.
create or replace function inturn.wrong_payload(p_text text) returns text
language plpgsql immutable as $$
begin
    if p_text is null then
        return 'payload is null: use the JSON text ''null'' for nothing';
    end if;
    if octet_length(p_text) > 1048576 then
        return 'payload has more than 1048576 bytes';
    end if;
    perform p_text::jsonb;
    return null;
exception when others then
    return format('payload cannot be kept: %s', sqlerrm);
end $$;

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
    now timestamptz default null,
    after_failed uuid[] default '{}'
) returns uuid language plpgsql as $$
declare
    v_id uuid := inturn.uuid7();
    v_wrong text := inturn.wrong_job(
        queue, kind, payload, key, priority, round, delay_seconds, attempts_max, timeout_seconds,
        after, after_failed, dedupe, dedupe_seconds, now);
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
        array_fill(v_id, array[cardinality(after || after_failed)]), after || after_failed,
        case when cardinality(after_failed) > 0 then array[v_id] end, now) a;
    return v_id;
end $$;

-- Submit many jobs, all or none, each an object with the names and defaults of enqueue's arguments:
--
--   select * from inturn.enqueue_many('[{"queue": "mail", "kind": "send", "key": "a"}, …]');
--
-- Returns a ticket for each, in the given order, which is also their order within a key. The keys
-- are locked in one order for everyone, so that two batches never wait for each other.
create or replace function inturn.enqueue_many(jobs json, now timestamptz default null)
returns table (id uuid, lane bigint, "position" bigint, duplicate boolean) language plpgsql as $$
#variable_conflict use_variable
declare
    r record;
    v_count integer := 0;
    v_chars bigint := 0;
    v_ids uuid[] := '{}';
    v_queues text[] := '{}';
    v_keys text[] := '{}';
    v_kinds text[] := '{}';
    v_payloads text[] := '{}';
    v_priorities integer[] := '{}';
    v_rounds integer[] := '{}';
    v_attempts integer[] := '{}';
    v_timeouts double precision[] := '{}';
    v_delays double precision[] := '{}';
    v_dedupes text[] := '{}';
    v_dedupe_seconds double precision[] := '{}';
    v_waits_job uuid[] := '{}';
    v_waits_on uuid[] := '{}';
    v_after uuid[];
    v_after_failed uuid[];
    v_reactions uuid[] := '{}';
    v_wrong text;
begin
    if jobs is null or json_typeof(jobs) <> 'array' then
        raise exception 'jobs must be a JSON array of objects'
        using errcode = 'IT005', hint = 'Nothing was stored.';
    end if;
    for r in select e.job from json_array_elements(jobs) as e(job) loop
        v_count := v_count + 1;
        v_ids[v_count] := inturn.uuid7();
        begin
            v_wrong := inturn.wrong_fields(r.job);
            if v_wrong is null then
                v_kinds[v_count] := r.job ->> 'kind';
                v_keys[v_count] := r.job ->> 'key';
                v_queues[v_count] := r.job ->> 'queue';
                v_payloads[v_count] := coalesce(r.job -> 'payload', 'null')::text;
                v_priorities[v_count] := inturn.given(r.job, 'priority', '0')::integer;
                v_rounds[v_count] := inturn.given(r.job, 'round', '0')::integer;
                v_attempts[v_count] := inturn.given(r.job, 'attempts_max', '5')::integer;
                v_timeouts[v_count] := (r.job ->> 'timeout_seconds')::double precision;
                v_delays[v_count] := inturn.given(r.job, 'delay_seconds', '0')::double precision;
                v_dedupes[v_count] := r.job ->> 'dedupe';
                v_dedupe_seconds[v_count] :=
                    inturn.given(r.job, 'dedupe_seconds', '86400')::double precision;
                v_after := array(
                    select a::uuid
                    from json_array_elements_text(coalesce(r.job -> 'after', '[]')) as a);
                v_after_failed := array(
                    select a::uuid
                    from json_array_elements_text(coalesce(r.job -> 'after_failed', '[]')) as a);
                v_wrong := inturn.wrong_job(
                    v_queues[v_count], v_kinds[v_count], v_payloads[v_count]::json,
                    v_keys[v_count], v_priorities[v_count], v_rounds[v_count], v_delays[v_count],
                    v_attempts[v_count], v_timeouts[v_count], v_after, v_after_failed,
                    v_dedupes[v_count], v_dedupe_seconds[v_count], now);
            end if;
        exception when data_exception then
            v_wrong := sqlerrm; -- a number or an id that is none, a text that cannot be kept
        end;
        v_chars := v_chars + char_length(v_payloads[v_count]);
        if v_wrong is null and v_count > 50000 then
            v_wrong := 'a batch may hold 50000 jobs: send several';
        elsif v_wrong is null and v_chars > 67108864 then
            v_wrong := 'the payloads of a batch may have 67108864 characters: send several';
        end if;
        if v_wrong is null and cardinality(v_waits_on) + cardinality(v_after) > 1000000 then
            v_wrong := 'the jobs of a batch may wait 1000000 times for others: send several';
        end if;
        if v_wrong is not null then
            raise exception 'job % of the batch (kind %, key %) cannot be accepted: %',
                v_count, coalesce(v_kinds[v_count], 'none'), coalesce(v_keys[v_count], 'none'),
                v_wrong
            using errcode = 'IT005', hint = 'Nothing was stored.';
        end if;
        if cardinality(v_after_failed) > 0 then
            v_after := v_after_failed;
            v_reactions := v_reactions || v_ids[v_count];
        end if;
        v_waits_job := v_waits_job || array_fill(v_ids[v_count], array[cardinality(v_after)]);
        v_waits_on := v_waits_on || v_after;
    end loop;
    if v_count = 0 then
        return;
    end if;
    return query
    select a.id, a.lane, a.position, a.duplicate
    from inturn.accept(
        v_ids, v_queues, v_keys, v_kinds, v_payloads, v_priorities, v_rounds, v_attempts,
        v_timeouts, v_delays, v_dedupes, v_dedupe_seconds, v_waits_job, v_waits_on, v_reactions,
        now) a
    order by a.n;
end $$;

-- What a job's object says under a name, or what stands for it when the name is not there.
create or replace function inturn.given(p_job json, p_name text, p_default text) returns text
language sql immutable as $$
    select case when p_job -> p_name is null then p_default else p_job ->> p_name end
$$;

-- Say what is wrong with the fields of a job that came as an object; null if nothing is.
create or replace function inturn.wrong_fields(p_job json) returns text language plpgsql immutable
as $$
begin
    if json_typeof(p_job) <> 'object' then
        return 'it is not an object';
    end if;
    return (
        select case
            when k.name is null then format('it has no field %s', f.key)
            else format('%s must be of type %s', f.key, k.type)
        end
        from json_each(p_job) as f(key, value)
        left join (values
            ('queue', 'string', false), ('kind', 'string', false), ('payload', null, true),
            ('key', 'string', true), ('priority', 'number', false), ('round', 'number', false),
            ('delay_seconds', 'number', false), ('attempts_max', 'number', false),
            ('timeout_seconds', 'number', true), ('after', 'array', false),
            ('after_failed', 'array', false),
            ('dedupe', 'string', true), ('dedupe_seconds', 'number', false)
        ) as k(name, type, may_be_null) on k.name = f.key
        where k.name is null
           or json_typeof(f.value) <> k.type
              and not (k.may_be_null and json_typeof(f.value) = 'null')
        limit 1);
end $$;

-- Say what is wrong with a job, in the words of its bounds; null if nothing is.
create or replace function inturn.wrong_job(
    queue text, kind text, payload json, key text, priority integer, round integer,
    delay_seconds double precision, attempts_max integer, timeout_seconds double precision,
    after uuid[], after_failed uuid[], dedupe text, dedupe_seconds double precision,
    now timestamptz
) returns text language plpgsql as $$
declare
    v_wrong text := inturn.wrong_payload(payload::text);
begin
    return case
        -- A job's times lie up to ten years from now, and Python's reach from year 1 to 9999.
        when not isfinite(now) or extract(year from now) not between 100 and 9900
            then 'now must be a time of the years 100 to 9900'
        when coalesce(char_length(queue), 0) not between 1 and 128
            then 'queue needs 1 to 128 characters'
        when coalesce(char_length(kind), 0) not between 1 and 200
            then 'kind needs 1 to 200 characters'
        when char_length(key) not between 1 and 500
            then 'key needs 1 to 500 characters'
        when char_length(dedupe) not between 1 and 500
            then 'dedupe needs 1 to 500 characters'
        when v_wrong is not null
            then v_wrong
        when priority is null or priority not between -100 and 100
            then 'priority may be -100 to 100'
        when round is null or round not between 0 and 1000000000
            then 'round may be 0 to 1000000000'
        when delay_seconds is null or not delay_seconds between 0 and 316224000
            then 'delay_seconds may be 0 to 316224000'
        when delay_seconds > 0 and round > 0
            then 'a job has both a delay and a round: choose one'
        when delay_seconds > 0 and cardinality(after || after_failed) > 0
            then 'a job has both a delay and after: delay the jobs it waits for'
        when cardinality(after) > 0 and cardinality(after_failed) > 0
            then 'a job has both after and after_failed: choose one'
        when attempts_max is null or attempts_max not between 1 and 1000
            then 'attempts_max may be 1 to 1000'
        when not timeout_seconds between 0.001 and 2592000
            then 'timeout_seconds may be 0.001 to 2592000'
        when dedupe_seconds is null or not dedupe_seconds between 0.001 and 31622400
            then 'dedupe_seconds may be 0.001 to 31622400'
        when after is null or cardinality(after) > 50000
            then 'after may name up to 50000 jobs'
        when after_failed is null or cardinality(after_failed) > 50000
            then 'after_failed may name up to 50000 jobs'
    end;
end $$;
