-- What a job is about, wherever it is: of one that was set aside, its row there.
select queue, kind, key, payload from parked where id = :id
union all select queue, kind, key, payload from blocked where id = :id
union all select queue, kind, key, payload from dead where id = :id
union all select queue, kind, key, payload from cancelled where id = :id
union all select queue, kind, key, payload from log where id = :id
limit 1
