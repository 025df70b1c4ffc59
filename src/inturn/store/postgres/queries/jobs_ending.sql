-- Ids that end with the hexadecimal digits $1: of the newest million in the log and all set aside.
select distinct id from (
    select id from (select id from inturn.job order by id desc limit 1000000) newest
    union all select id from inturn.parked
    union all select id from inturn.blocked
    union all select id from inturn.dead
    union all select id from inturn.cancelled
) known
where replace(id::text, '-', '') like '%' || $1
limit 10
