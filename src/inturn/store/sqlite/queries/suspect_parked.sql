-- Parked jobs that are due and must be leased alone, by rank.
select id, rank_at from parked indexed by parked_suspect
where queue = :queue and rank_at is not null and suspect
  and round <= :gate and (:kinds is null or kind in (select value from json_each(:kinds)))
order by rank_at, id
limit :jobs_max
