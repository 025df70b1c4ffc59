-- A lane with its tail; the caller adds which.
select lane.id, lane.queue, lane.key, lane.kind, lane.priority, lane.round, lane.head, lane.cursor,
       lane.active, lane.rank_at, lane.waiting_since, lane.ready_at, lane.token,
       lane.head_attempt, lane.head_crashes, lane.head_errors, lane.suspect_last,
       lane.halted_at, lane.halted_job, lane.paused_at, lane.paused_by, tail.last, tail.round
from lane join tail on tail.lane = lane.id
