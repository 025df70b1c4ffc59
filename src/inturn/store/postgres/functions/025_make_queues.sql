-- Make queues that are not there yet. At "repeatable read" and above, one that was made since the
-- snapshot is a serialization failure: try again.
create or replace function inturn.make_queues(p_names text[]) returns void language sql as $$
    insert into inturn.queue (name)
    select distinct n from unnest(p_names) n
    where not exists (select from inturn.queue q where q.name = n)
    order by n
    on conflict do nothing
$$;
