-- What was last seen of some items.
select key, version, deleted, item
from poll.shadow
where source = :source and key in (select value from json_each(:keys))
