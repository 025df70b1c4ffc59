-- What identifies a job's content: a digest of canonical JSON (jsonb sorts keys and drops spaces).
-- A number that jsonb cannot hold, such as 1e-20000, makes it the digest of the text as it is.
create or replace function inturn.digest(p_kind text, p_key text, p_payload text) returns bytea
language plpgsql immutable parallel safe as $$
begin
    return sha256(convert_to(jsonb_build_array(p_kind, p_key, p_payload::jsonb)::text, 'UTF8'));
exception when numeric_value_out_of_range then
    return sha256(convert_to(jsonb_build_array(p_kind, p_key, p_payload)::text, 'UTF8'));
end $$;

-- The job that a dedupe key stands for while its window lasts: the given one if the key is new.
-- Two producers of one key: the second waits for the first to commit, and then sees it.
create or replace function inturn.dedupe(
    p_queue text, p_dedupe text, p_job uuid, p_digest bytea,
    p_seconds double precision, p_now timestamptz
) returns uuid language plpgsql as $$
declare
    v_found inturn.dedupe;
begin
    loop
        insert into inturn.dedupe (queue, dedupe, job, digest, until)
        values (p_queue, p_dedupe, p_job, p_digest, p_now + make_interval(secs => p_seconds))
        on conflict (queue, dedupe) do update
            set job = excluded.job, digest = excluded.digest, until = excluded.until
            where dedupe.until <= p_now
        returning * into v_found;
        if found then
            return p_job;
        end if;
        select * into v_found from inturn.dedupe where queue = p_queue and dedupe = p_dedupe;
        continue when not found;
        if v_found.digest <> p_digest then
            raise exception 'dedupe key % of queue % stands for another job', p_dedupe, p_queue
            using errcode = 'IT002', detail = jsonb_build_object(
                'queue', p_queue, 'dedupe', p_dedupe, 'job', v_found.job
            )::text;
        end if;
        return v_found.job;
    end loop;
end $$;
