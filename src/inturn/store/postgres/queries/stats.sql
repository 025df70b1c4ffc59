-- What was settled in queue $1 per kind and minute, from the minute of $2 on.
-- Settles add rows of their own and a sweep folds them later, so a minute may have many.
with chosen as (
    select kind, minute_at, done, retried, buried, released, seconds_sum, durations
    from inturn.stat
    where queue = $1 and minute_at >= date_trunc('minute', $2::timestamptz, 'UTC')
), buckets as (
    select kind, minute_at, array_agg(total order by bucket) as durations from (
        select kind, minute_at, d.bucket, sum(d.count)::bigint as total
        from chosen cross join lateral unnest(durations) with ordinality as d(count, bucket)
        group by kind, minute_at, d.bucket
    ) b group by kind, minute_at
), sums as (
    select kind, minute_at, sum(done)::bigint as done, sum(retried)::bigint as retried,
           sum(buried)::bigint as buried, sum(released)::bigint as released,
           sum(seconds_sum) as seconds_sum
    from chosen group by kind, minute_at
)
select kind, minute_at, done, retried, buried, released, seconds_sum,
       coalesce(durations, '{}') as durations
from sums left join buckets using (kind, minute_at)
order by minute_at, kind
