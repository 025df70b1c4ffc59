-- Each step that an owner's tables took. By way of JSON, because before version 8 all were the
-- engine's, and had no column to say so.
select
    coalesce(v ->> 'owner', 'engine') as owner,
    (v ->> 'version')::integer as version,
    coalesce(v ->> 'oldest', v ->> 'version')::integer as oldest
from (select to_jsonb(s) as v from inturn.schema_version s) steps
