-- Put jobs at the tails of their lanes, in the given order within each lane.
-- In a keyed lane a job's round is raised to that of the job before it: rounds never fall there.
create or replace function inturn.append(
    p_ids uuid[], p_queues text[], p_keys text[], p_kinds text[], p_payloads text[],
    p_priorities integer[], p_rounds integer[], p_attempts integer[], p_timeouts double precision[],
    p_sinces timestamptz[], p_now timestamptz
) returns table (id uuid, lane bigint, "position" bigint) language plpgsql
set enable_seqscan = off set enable_hashjoin = on set enable_mergejoin = on as $$
#variable_conflict use_column
declare
    g record;
    r record;
begin
    if cardinality(p_ids) = 1 then
        r := inturn.reserve(
            p_queues, p_keys, p_kinds, p_priorities, p_rounds, p_rounds, array[1], p_sinces,
            p_now, false);
        return query
        insert into inturn.job (
            lane, position, id, kind, payload, priority, round,
            attempts_max, timeout_seconds, enqueued_at)
        values (
            r.lanes[1], r.befores[1] + 1, p_ids[1], p_kinds[1], p_payloads[1],
            p_priorities[1], greatest(p_rounds[1], r.floors[1]),
            p_attempts[1], p_timeouts[1], p_sinces[1])
        returning job.id, job.lane, job.position;
        return;
    end if;
    select
        array_agg(queue) as queues, array_agg(key) as keys, array_agg(kind) as kinds,
        array_agg(priority) as priorities, array_agg(round) as rounds,
        array_agg(round_last) as rounds_last, array_agg(count) as counts,
        array_agg(since) as sinces, array_agg(place) as places
    into g
    from (
        select
            n.queue, n.key,
            (array_agg(n.kind order by n.n))[1] as kind,
            (array_agg(n.priority order by n.n))[1] as priority,
            (array_agg(n.round order by n.n))[1] as round,
            max(n.round) as round_last,
            count(*)::integer as count,
            (array_agg(n.since order by n.n))[1] as since,
            n.place
        from (
            select
                j.*,
                case
                    when j.key is null then jsonb_build_array(j.queue, j.kind, j.priority, j.round)
                    else jsonb_build_array(j.queue, j.key)
                end::text as place
            from unnest(p_queues, p_keys, p_kinds, p_priorities, p_rounds, p_sinces)
                with ordinality as j(queue, key, kind, priority, round, since, n)
        ) n
        group by n.queue, n.key, n.place
        order by n.place
    ) grouped;
    r := inturn.reserve(
        g.queues, g.keys, g.kinds, g.priorities, g.rounds, g.rounds_last, g.counts, g.sinces,
        p_now, false);
    return query
    insert into inturn.job (
        lane, position, id, kind, payload, priority, round,
        attempts_max, timeout_seconds, enqueued_at)
    select
        l.lane, l.before + row_number() over (partition by l.lane order by j.n),
        j.id, j.kind, j.payload, j.priority,
        greatest(l.floor, max(j.round) over (partition by l.lane order by j.n)),
        j.attempts, j.timeout, j.since
    from unnest(
        p_ids, p_queues, p_keys, p_kinds, p_payloads, p_priorities, p_rounds,
        p_attempts, p_timeouts, p_sinces
    ) with ordinality
        as j(id, queue, key, kind, payload, priority, round, attempts, timeout, since, n)
    join unnest(r.lanes, r.befores, r.floors, g.places) as l(lane, before, floor, place)
      on l.place = case
          when j.key is null then jsonb_build_array(j.queue, j.kind, j.priority, j.round)
          else jsonb_build_array(j.queue, j.key)
      end::text
    returning job.id, job.lane, job.position;
end $$;
