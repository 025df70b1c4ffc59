-- Make queues that are not there yet. At "repeatable read" and above one may have been made since
-- the snapshot: then it is there all the same, with the settings that every new queue has.
create or replace function inturn.make_queues(p_names text[]) returns void language plpgsql as $$
begin
    if not exists (
        select from unnest(p_names) n
        where not exists (select from inturn.queue where name = n)
    ) then
        return;
    end if;
    if current_setting('transaction_isolation') = 'read committed' then
        insert into inturn.queue (name)
        select distinct n from unnest(p_names) n order by n
        on conflict do nothing;
        return;
    end if;
    for i in 1 .. cardinality(p_names) loop
        begin
            insert into inturn.queue (name) values (p_names[i]) on conflict do nothing;
        exception when serialization_failure then
            null;
        end;
    end loop;
end $$;
