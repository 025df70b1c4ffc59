-- Forget some items.
delete from poll.shadow
where source = :source and key = any(array(select jsonb_array_elements_text(:keys::text::jsonb)))
