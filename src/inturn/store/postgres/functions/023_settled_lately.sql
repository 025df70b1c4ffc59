-- How many jobs of a queue were done or buried in this minute and the minutes before it, and within
-- how many seconds. Every settle leaves a row until prune folds them, so the latest 10,000 have to
-- do, which take 5 ms. Where there are more, the queue drains faster than this says.
create or replace function inturn.settled_lately(
    p_queue text, p_minutes_before integer, p_now timestamptz
) returns table (settled bigint, within_seconds double precision) language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off as $$
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
begin
    return query
    select
        coalesce(sum(latest.settled), 0)::bigint,
        coalesce(extract(epoch from v_now - min(latest.minute_at)), 0)::double precision
    from (
        select s.minute_at, s.done + s.buried as settled
        from inturn.stat s
        where s.queue = p_queue
          and s.minute_at >= date_trunc('minute', v_now, 'UTC')
              - make_interval(mins => p_minutes_before)
        order by s.minute_at desc
        limit 10000
    ) latest;
end $$;
