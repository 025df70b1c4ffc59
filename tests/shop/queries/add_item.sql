-- Add one item. A name may say 'a:b' or "shop.item"; here: no :parameter is read, and no shop.table.
insert into shop.item (id, name, size, sold_at)
values (:id, cast(:name as text), :size, :sold_at)
returning 1 as items;
