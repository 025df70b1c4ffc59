-- Delete some of the jobs at or before a lane's mark, the oldest first: one range of the log.
delete from job
where lane = ?1 and position <= ?2
  and position < ?3 + (select min(position) from job where lane = ?1)
