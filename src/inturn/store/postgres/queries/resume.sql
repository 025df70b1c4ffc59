-- Let a queue go on, and wake those who wait for it.
with resumed as (
    insert into inturn.queue (name) values ($1)
    on conflict (name) do update set paused_at = null, paused_by = null
    returning name
)
select pg_notify('inturn', name) from resumed
