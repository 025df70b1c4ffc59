-- Lanes whose retry is due may be claimed again.
create or replace function inturn.wake(
    p_queue text, p_now timestamptz, p_aging double precision
) returns void language sql as $$
    update inturn.lane l set
        ready_at = null,
        rank_at = case
            when l.paused_at is null and l.halted_at is null
                then inturn.rank(coalesce(l.waiting_since, p_now), l.priority, p_aging)
        end
    where l.id in (
        select id from inturn.lane
        where queue = p_queue and ready_at <= p_now
        for update skip locked)
$$;
