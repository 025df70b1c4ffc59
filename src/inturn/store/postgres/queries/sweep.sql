-- What every worker does now and then: let in blocked jobs whose wait ended unseen, fold
-- the statistics of this minute and $2 before it.
select
    inturn.recheck(1000, coalesce($1::timestamptz, clock_timestamp())),
    inturn.fold_stats($2, $1::timestamptz)
