-- Ids of parked jobs in a state: which depends on the lease, the attempts and the time.
select id from parked
where id < :before
  and (:queue is null or queue = :queue) and (:kind is null or kind = :kind)
  and (:key is null or key = :key)
  and :state = case when token is not null then 'running'
                    when attempt > 0 then 'retrying'
                    when run_at > :now then 'scheduled'
                    else 'waiting' end
order by id desc
limit :rows_max
