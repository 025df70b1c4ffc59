-- A worker's turn: settle, then claim what comes next, in one transaction. Returns no rows where
-- the claim found nothing, or found every open lane in another claim's hands: then claim by itself.
create or replace function inturn.turn(
    p_tokens bigint[], p_counts bigint[],
    p_open_tokens bigint[], p_open_lanes bigint[], p_open_firsts bigint[], p_open_lasts bigint[],
    p_keyed_tokens bigint[], p_keyed_lanes bigint[], p_keyed_firsts bigint[],
    p_keyed_lasts bigint[],
    p_parked_tokens bigint[], p_others jsonb, p_results jsonb, p_tallies jsonb,
    p_worker text, p_now timestamptz,
    p_queue text, p_jobs_max integer, p_lease_seconds double precision, p_kinds text[],
    p_suspects_max integer
) returns setof inturn.claimed language plpgsql as $$
begin
    perform inturn.settle(
        p_tokens, p_counts,
        p_open_tokens, p_open_lanes, p_open_firsts, p_open_lasts,
        p_keyed_tokens, p_keyed_lanes, p_keyed_firsts, p_keyed_lasts,
        p_parked_tokens, p_others, p_results, p_tallies, p_worker, p_now, false);
    return query
    select *
    from inturn.claim(
        p_queue, p_jobs_max, p_worker, p_lease_seconds, p_kinds, p_suspects_max, p_now, true);
end $$;
