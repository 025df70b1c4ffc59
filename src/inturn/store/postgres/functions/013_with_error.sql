-- A history of errors with one more attempt in it: the last 20, as in policy/history.py, with a
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
            'traceback', p_traceback) as errors
    )
    select case when jsonb_array_length(errors) <= 20 then errors else errors - 0 end
    from history
$$;
