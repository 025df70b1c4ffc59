-- Note that a walk has seen some items.
update poll.shadow set walk = :walk
where source = :source and walk < :walk
  and key = any(array(select jsonb_array_elements_text(:keys::text::jsonb)))
