-- Which of these queues are not there yet.
select name from unnest($1::text[]) as q(name)
where not exists (select from inturn.queue where name = q.name)
