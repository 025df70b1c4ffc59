-- The smallest round beyond the gate in which a job waits or is blocked; null when there is none.
select min(round) from (
    select min(round) as round from lane where queue = :queue and active and round > :gate
    union all
    select min(job.round) from lane join job on job.lane = lane.id and job.position >= lane.cursor
    where lane.queue = :queue and lane.active and lane.key is not null and lane.round <= :gate
      and job.round > :gate
    union all
    select min(round) from blocked where queue = :queue and round > :gate
    union all
    select min(round) from parked where queue = :queue and round > :gate)
