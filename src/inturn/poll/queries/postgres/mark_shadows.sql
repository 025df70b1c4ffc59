-- Note that a walk has seen some items.
update poll.shadow set pass = :pass
where source = :source and pass < :pass
  and key = any(array(select jsonb_array_elements_text(:keys::text::jsonb)))
