-- Blocked jobs that wait for nothing, among some blocked jobs from an id on.
select id from (select id from blocked where id >= ?1 order by id limit ?2) as slice
where not exists (select 1 from waits where waits.job = slice.id)
order by id
