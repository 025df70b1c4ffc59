insert into shop.item (id, name, size, sold, sold_at)
select
    json_extract(r.value, '$.id'), json_extract(r.value, '$.name'), json_extract(r.value, '$.size'),
    json_extract(r.value, '$.sold'), json_extract(r.value, '$.sold_at')
from json_each(:rows) r
