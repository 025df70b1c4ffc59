-- How many jobs of a queue's open rounds are not finished, wherever they are.
--
-- Lanes: rounds never fall within a keyed lane, so one whose tail is in an open round counts whole,
-- and only one that reaches beyond the gate has its jobs counted. Leases are of open rounds: what
-- is gated cannot be claimed. A halted lane's head is at its cursor, and counted there and not
-- among the dead.
with open_lane as (
    select lane.id, lane.cursor,
           iif(lane.key is null or tail.round <= :gate, tail.last,
               (select coalesce(max(position), 0) from job
                where job.lane = lane.id and job.position >= lane.cursor
                  and job.round <= :gate)) as last
    from lane join tail on tail.lane = lane.id
    where lane.queue = :queue and lane.active and lane.round <= :gate
)
select
    (select coalesce(sum(max(last - cursor + 1, 0)
            - (select count(*) from cancelled where cancelled.lane = open_lane.id
               and cancelled.position between open_lane.cursor and open_lane.last)), 0)
     from open_lane)
    + (select coalesce(sum(unsettled), 0) from lease where queue = :queue)
    + (select count(*) from parked where queue = :queue and round <= :gate and token is null)
    + (select count(*) from blocked where queue = :queue and round <= :gate)
    + iif(:halts,
          (select count(*) from dead where queue = :queue and round <= :gate
             and not exists (select 1 from lane where lane.queue = dead.queue
                             and lane.key = dead.key and lane.halted_job = dead.id)),
          0)
