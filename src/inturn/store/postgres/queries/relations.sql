-- What stands in the schema inturn, and whether inturn's own version table is among it. In one
-- statement, for another process may be making the tables at this moment.
select
    array_agg(lower(c.relname)) as names,
    coalesce(bool_or(c.relname = 'schema_version' and exists (
        select from pg_attribute a where a.attrelid = c.oid and a.attname = 'applied_at'
    )), false) as is_ours
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = 'inturn'
