-- Write down how far some lanes are finished, where that is farther than their newest mark says.
-- A keyed lane is finished up to its head, an open one up to its first run, or its cursor.
with reached as (
    select lane.id as lane, iif(lane.key is not null, lane.head,
        min(lane.cursor, coalesce((select min(first) from run where run.lane = lane.id),
                                  lane.cursor))) - 1 as finished
    from lane
    where lane.id > ?2 and lane.id <= ?3
)
insert into mark (lane, position, marked_at)
select reached.lane, reached.finished, ?1 from reached
where reached.finished > coalesce(
        (select max(position) from mark where mark.lane = reached.lane), 0)
  and exists (select 1 from job
              where job.lane = reached.lane and job.position <= reached.finished)
