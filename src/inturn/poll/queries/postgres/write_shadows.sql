-- Write items as they were seen.
insert into poll.shadow (source, key, version, deleted, item, pass, changed_at)
select r.source, r.key, r.version, r.deleted, r.item, r.seen_pass, r.changed_at
from jsonb_to_recordset(:rows) r(
    source text, key text, version text, deleted boolean, item text, seen_pass bigint,
    changed_at timestamptz)
on conflict (source, key) do update set
    version = excluded.version, deleted = excluded.deleted, item = excluded.item,
    pass = excluded.pass, changed_at = excluded.changed_at
