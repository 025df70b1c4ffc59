-- Write items as they were seen.
insert into poll.shadow (source, key, version, deleted, item, walk, changed_at)
select :source, value ->> 'key', value ->> 'version', value ->> 'deleted', value ->> 'item',
       :walk, :changed_at
from json_each(:shadows)
where true
on conflict (source, key) do update set
    version = excluded.version, deleted = excluded.deleted, item = excluded.item,
    walk = excluded.walk, changed_at = excluded.changed_at
