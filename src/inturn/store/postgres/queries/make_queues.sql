-- Make queues, if they are not there yet.
insert into inturn.queue (name) select unnest($1::text[]) order by 1 on conflict do nothing
