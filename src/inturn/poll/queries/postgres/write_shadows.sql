-- Write items as they were seen.
insert into poll.shadow (source, key, version, deleted, item, walk, changed_at)
select r.source, r.key, r.version, r.deleted, r.item, r.walk, r.changed_at
from jsonb_to_recordset(:rows) r(
    source text, key text, version text, deleted boolean, item text, walk bigint,
    changed_at timestamptz)
on conflict (source, key) do update set
    version = excluded.version, deleted = excluded.deleted, item = excluded.item,
    walk = excluded.walk, changed_at = excluded.changed_at
