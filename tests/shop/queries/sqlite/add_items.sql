insert into shop.item (id, name, size, sold, sold_at)
select r.value ->> 'id', r.value ->> 'name', r.value ->> 'size', r.value ->> 'sold', r.value ->> 'sold_at'
from json_each(:rows) r
