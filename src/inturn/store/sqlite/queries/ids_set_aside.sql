-- Ids of jobs that are parked, blocked, dead or cancelled, each table read in the order of ids.
select id from (
    select * from (select id, queue, kind, key from parked where id < :before
        and (:queue is null or queue = :queue) and (:kind is null or kind = :kind)
        and (:key is null or key = :key) order by id desc limit :rows_max)
    union
    select * from (select id, queue, kind, key from blocked where id < :before
        and (:queue is null or queue = :queue) and (:kind is null or kind = :kind)
        and (:key is null or key = :key) order by id desc limit :rows_max)
    union
    select * from (select id, queue, kind, key from dead where id < :before
        and (:queue is null or queue = :queue) and (:kind is null or kind = :kind)
        and (:key is null or key = :key) order by id desc limit :rows_max)
    union
    select * from (select id, queue, kind, key from cancelled where id < :before
        and (:queue is null or queue = :queue) and (:kind is null or kind = :kind)
        and (:key is null or key = :key) order by id desc limit :rows_max)
)
order by id desc
limit :rows_max
