select i.id, i.name, i.size, i.sold, i.sold_at
from shop.item i
where cast(:name as text) is null or i.name = :name
order by i.name, i.id
