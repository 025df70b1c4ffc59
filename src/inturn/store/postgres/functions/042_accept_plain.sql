-- Accept jobs that have no dedupe key, wait for nothing and are not delayed, in one statement:
-- reserve positions for groups of jobs, one group a lane, and append the jobs to the log.
--
-- The jobs come group after group, in their order within each: p_ids, and p_payloads as one text
-- with the character U+001E between them, which no JSON text holds. Their other columns are arrays
-- of one when all jobs are alike. In a keyed lane a job's round is at least that of the job before
-- it; the caller has seen to that within the batch. Returns, a group each, the lane and the
-- position before its first job.
create or replace function inturn.accept_plain(
    p_queues text[], p_keys text[], p_kinds text[], p_priorities integer[], p_rounds integer[],
    p_rounds_last integer[], p_counts integer[],
    p_ids uuid[], p_payloads text, p_job_kinds text[], p_job_priorities integer[],
    p_job_rounds integer[], p_job_attempts integer[], p_job_timeouts double precision[],
    p_now timestamptz,
    out lanes bigint[], out befores bigint[]
) language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
set enable_bitmapscan = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
    r record;  -- what was reserved
    v record;  -- the same, job by job
    v_at timestamptz;
begin
    perform inturn.check_new(p_ids);
    r := inturn.reserve(
        p_queues, p_keys, p_kinds, p_priorities, p_rounds, p_rounds_last, p_counts, null, p_now,
        true);
    lanes := r.lanes;
    befores := r.befores;
    v_at := r.at;
    select
        array_agg(g.lane) as lanes, array_agg(g.before + k) as positions,
        array_agg(g.floor) as floors
    into v
    from unnest(r.lanes, r.befores, r.floors, inturn.spread(p_counts, cardinality(p_keys)))
        as g(lane, before, floor, count)
    cross join generate_series(1, g.count) k;
    insert into inturn.job (
        lane, position, id, kind, payload, priority, round,
        attempts_max, timeout_seconds, enqueued_at)
    select
        j.lane, j.position, j.id,
        p_job_kinds[least(j.n, cardinality(p_job_kinds))],
        j.payload,
        p_job_priorities[least(j.n, cardinality(p_job_priorities))],
        greatest(j.floor, p_job_rounds[least(j.n, cardinality(p_job_rounds))]),
        p_job_attempts[least(j.n, cardinality(p_job_attempts))],
        p_job_timeouts[least(j.n, cardinality(p_job_timeouts))],
        v_at
    from unnest(p_ids, string_to_array(p_payloads, E'\x1e'), v.lanes, v.positions, v.floors)
        with ordinality as j(id, payload, lane, position, floor, n);
end $$;
