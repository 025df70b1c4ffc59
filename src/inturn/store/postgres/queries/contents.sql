-- What these jobs are about, wherever they are.
select id, queue, kind, key, payload from inturn.log where id = any($1::uuid[])
union all select id, queue, kind, key, payload from inturn.parked where id = any($1::uuid[])
union all select id, queue, kind, key, payload from inturn.blocked where id = any($1::uuid[])
union all select id, queue, kind, key, payload from inturn.dead where id = any($1::uuid[])
union all select id, queue, kind, key, payload from inturn.cancelled where id = any($1::uuid[])
