insert into shop.item (id, name, size, sold, sold_at)
select r.id, r.name, r.size, r.sold, r.sold_at
from jsonb_to_recordset(:rows) as r(id text, name text, size text, sold boolean, sold_at timestamptz)
