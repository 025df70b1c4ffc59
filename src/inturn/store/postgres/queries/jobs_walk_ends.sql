-- Whether the log ends within $2 rows before the id $1, so that a walk has seen all of it.
select not exists (
    select from inturn.job where id < $1::uuid order by id desc offset $2::bigint limit 1
)
