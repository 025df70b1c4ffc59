-- Accept the plain jobs of several producers at once, as inturn.accept_plain does for one, or give
-- up soon: a tail that somebody's open transaction holds may hold up the producers of its own key,
-- and no others. Who is refused sends each producer's jobs by themselves.
create or replace function inturn.accept_plain_together(
    p_queues text[], p_keys text[], p_kinds text[], p_priorities integer[], p_rounds integer[],
    p_rounds_last integer[], p_counts integer[],
    p_ids uuid[], p_payloads text, p_job_kinds text[], p_job_priorities integer[],
    p_job_rounds integer[], p_job_attempts integer[], p_job_timeouts double precision[],
    p_now timestamptz,
    out lanes bigint[], out befores bigint[]
) language plpgsql set lock_timeout = '20ms' as $$
begin
    select r.lanes, r.befores into lanes, befores
    from inturn.accept_plain(
        p_queues, p_keys, p_kinds, p_priorities, p_rounds, p_rounds_last, p_counts,
        p_ids, p_payloads, p_job_kinds, p_job_priorities, p_job_rounds, p_job_attempts,
        p_job_timeouts, p_now) r;
end $$;

-- The same for jobs of which some have a dedupe key.
create or replace function inturn.accept_together(
    p_ids uuid[], p_queues text[], p_keys text[], p_kinds text[], p_payloads text[],
    p_priorities integer[], p_rounds integer[], p_attempts integer[], p_timeouts double precision[],
    p_delays double precision[], p_dedupes text[], p_dedupe_seconds double precision[],
    p_waits_job uuid[], p_waits_on uuid[], p_now timestamptz
) returns table (
    n bigint, id uuid, lane bigint, "position" bigint, duplicate boolean
) language plpgsql set lock_timeout = '20ms' as $$
begin
    return query
    select a.n, a.id, a.lane, a.position, a.duplicate
    from inturn.accept(
        p_ids, p_queues, p_keys, p_kinds, p_payloads, p_priorities, p_rounds, p_attempts,
        p_timeouts, p_delays, p_dedupes, p_dedupe_seconds, p_waits_job, p_waits_on, p_now) a;
end $$;
