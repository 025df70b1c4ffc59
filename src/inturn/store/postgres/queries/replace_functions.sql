-- Note that inturn.enqueue calls the functions $1, and since when it does not call the others.
update inturn.functions
set replaced_at = case when name <> $1 then coalesce(replaced_at, now()) end
