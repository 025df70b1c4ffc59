-- A history of errors with one more attempt in it. It is bounded as in policy/history.py: of more
-- than 50, the first 10 and the last 40 are kept, and the 11th counts those left out before it; a
-- traceback is kept of the first and the last.
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
    select case
        when jsonb_array_length(errors) <= 50 then errors
        else jsonb_set(
            errors - 10, '{10,left_out}',
            to_jsonb(coalesce((errors -> 10 ->> 'left_out')::integer, 0) + 1))
    end
    from history
$$;
