-- What was last seen of some items.
select key, version, deleted, item
from poll.shadow
where source = :source and key = any(array(select jsonb_array_elements_text(:keys::text::jsonb)))
