-- Parked jobs that are due, by rank, as far as a rank; the index holds no others.
select id, rank_at from parked indexed by parked_claimable
where queue = :queue and rank_at is not null and not suspect and rank_at <= :rank_max
  and round <= :gate and (:kinds is null or kind in (select value from json_each(:kinds)))
order by rank_at, id
limit :jobs_max
