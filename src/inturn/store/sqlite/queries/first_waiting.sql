-- When the first job at or behind a position was accepted, cancelled ones left out.
-- Walks the log from there and stops at the first: as many steps as were cancelled in a row.
select enqueued_at from job
where lane = ?1 and position >= ?2
  and not exists (select 1 from cancelled where lane = ?1 and position = job.position)
order by position limit 1
