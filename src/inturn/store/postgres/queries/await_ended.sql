-- Say for 30 s that $1 wants to be told when jobs of the queues $2 end; forget who said so before.
with gone as (
    delete from inturn.awaiting
    where until < clock_timestamp() and (listener, queue) in (
        select listener, queue from inturn.awaiting
        where until < clock_timestamp() for update skip locked)
)
insert into inturn.awaiting (listener, queue, until)
select $1, q, clock_timestamp() + interval '30 seconds' from unnest($2::text[]) q
on conflict (listener, queue) do update set until = excluded.until
