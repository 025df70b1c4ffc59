-- Which of these ids are in the store already, and where: a batch that was committed although the
-- connection broke before the answer came is found again and not stored twice.
select id, lane, "position" from inturn.job where id = any($1::uuid[])
union all
select id, null, null from (
    select id from inturn.parked where id = any($1::uuid[])
    union all select id from inturn.blocked where id = any($1::uuid[])
    union all select id from inturn.dead where id = any($1::uuid[])
    union all select id from inturn.cancelled where id = any($1::uuid[])
) elsewhere
where not exists (select from inturn.job j where j.id = elsewhere.id)
