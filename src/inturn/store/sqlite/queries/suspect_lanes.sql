-- Keyed lanes whose head must be leased alone, by rank.
select id, rank_at from lane indexed by lane_suspect
where queue = :queue and rank_at is not null and suspect_last >= head and round <= :gate
  and (:kinds is null or kind in (select value from json_each(:kinds)))
order by rank_at, id
limit :jobs_max
