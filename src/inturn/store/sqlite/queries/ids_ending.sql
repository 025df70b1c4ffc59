-- Ids that end with some hexadecimal digits: of the newest million in the log and all set aside.
select distinct id from (
    select id from (select id from job order by id desc limit 1000000)
    union all select id from parked
    union all select id from blocked
    union all select id from dead
    union all select id from cancelled
)
where lower(hex(id)) like '%' || :ending
limit 10
