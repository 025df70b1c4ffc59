select count(*) as items from shop.item s where s.sold_at < :until
