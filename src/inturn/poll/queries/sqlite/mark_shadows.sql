-- Note that a walk has seen some items.
update poll.shadow set pass = :pass
where source = :source and pass < :pass and key in (select value from json_each(:keys))
