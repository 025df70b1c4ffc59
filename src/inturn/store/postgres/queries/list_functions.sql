-- Note that the functions $1 are here. Unless inturn.enqueue calls them, they may go in a week.
insert into inturn.functions as f (name, replaced_at) values ($1, now())
on conflict (name) do update set
    replaced_at = case when f.replaced_at is not null then now() end, dropped_at = null
