-- Marks beyond what is finished, by which a prune would take unfinished jobs.
select 'a mark at position ' || mark.position || ' of lane ' || mark.lane
    || ' is not behind what is finished.'
from mark join lane on lane.id = mark.lane
where mark.position >= iif(lane.key is null, lane.cursor, lane.head)
   or exists (select 1 from run where run.lane = lane.id and run.first <= mark.position)
