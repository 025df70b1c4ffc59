-- Parked jobs whose time has come and that have no rank yet, the longest due first.
select id, delayed, priority, run_at from parked indexed by parked_due
where queue = ? and token is null and rank_at is null and run_at <= ?
order by run_at, id
limit ?
