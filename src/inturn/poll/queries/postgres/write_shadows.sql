-- Write items as they were seen.
insert into poll.shadow (source, key, version, deleted, item, walk, changed_at)
select :source, r.key, r.version, r.deleted, r.item, :walk, :changed_at
from jsonb_to_recordset(:shadows::text::jsonb) r(key text, version text, deleted boolean, item text)
on conflict (source, key) do update set
    version = excluded.version, deleted = excluded.deleted, item = excluded.item,
    walk = excluded.walk, changed_at = excluded.changed_at
