-- Lanes that may be claimed, in the order of claiming: lowest open round, then rank.
-- lane_claimable holds only such lanes, in this order, so the walk stops when enough is found. A
-- lane that cannot be claimed has no rank and no place in the index; suspects have another index.
select lane.id, lane.queue, lane.key, lane.kind, lane.priority, lane.round, lane.head, lane.cursor,
       lane.active, lane.rank_at, lane.waiting_since, lane.ready_at, lane.token,
       lane.head_attempt, lane.head_crashes, lane.head_errors, lane.suspect_last,
       lane.halted_at, lane.halted_job, lane.paused_at, lane.paused_by, tail.last, tail.round
from lane indexed by lane_claimable cross join tail on tail.lane = lane.id
where lane.queue = :queue and lane.rank_at is not null and lane.suspect_last < lane.head
  and lane.round <= :gate
  and (:kinds is null or lane.kind in (select value from json_each(:kinds)))
order by lane.round, lane.rank_at, lane.id
