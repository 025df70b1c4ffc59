-- Lanes that hold nothing, so that they may go: a later job of the same key makes a new one.
select id from lane
where id > ?1 and id <= ?2
  and not active and token is null and paused_at is null and halted_at is null
  and not exists (select 1 from job where job.lane = lane.id)
  and not exists (select 1 from run where run.lane = lane.id)
  and not exists (select 1 from mark where mark.lane = lane.id)
