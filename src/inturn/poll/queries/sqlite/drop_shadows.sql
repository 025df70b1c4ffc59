-- Forget some items.
delete from poll.shadow
where source = :source and key in (select value from json_each(:keys))
