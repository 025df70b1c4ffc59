-- Open a queue's gate as far as a round; it never closes. Wakes those who wait for it.
with opened as (
    insert into inturn.queue (name, gate) values ($1, $2)
    on conflict (name) do update set gate = greatest(inturn.queue.gate, excluded.gate)
    returning name, gate
)
select gate from opened cross join lateral pg_notify('inturn', name)
