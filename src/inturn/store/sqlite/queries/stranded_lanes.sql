-- Inactive lanes in which jobs wait, among some lanes from an id on.
select lane.id from (select * from lane where id >= ?1 order by id limit ?2) as lane
cross join tail on tail.lane = lane.id
where not lane.active and tail.last >= lane.cursor
