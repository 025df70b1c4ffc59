-- Count anew the large queues among $1 whose counts are older than a second.
select inturn.recount(name, 1) from unnest($1::text[]) name
