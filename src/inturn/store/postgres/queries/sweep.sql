-- The slow sweep: blocked jobs whose wait ended unseen, and lanes that were stranded. Of the
-- latter there are none, unless something is wrong.
select
    inturn.admit(1000, coalesce($1::timestamptz, clock_timestamp())),
    inturn.mend(coalesce($1::timestamptz, clock_timestamp()))
