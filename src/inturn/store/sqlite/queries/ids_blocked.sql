-- Ids of blocked jobs, by id.
select id from blocked
where id < :before
  and (:queue is null or queue = :queue) and (:kind is null or kind = :kind)
  and (:key is null or key = :key)
order by id desc
limit :rows_max
