-- A history of errors with one more attempt in it.
create or replace function inturn.with_error(
    p_errors jsonb, p_attempt integer, p_at timestamptz, p_worker text, p_error text
) returns jsonb language sql stable parallel safe as $$
    select coalesce(p_errors, '[]'::jsonb) || jsonb_build_object(
        'attempt', p_attempt, 'at', p_at, 'worker', p_worker, 'error', p_error)
$$;
