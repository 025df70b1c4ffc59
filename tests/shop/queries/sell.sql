update shop.item set sold = true, sold_at = :now where id = :id
returning id, name, size, sold, sold_at
