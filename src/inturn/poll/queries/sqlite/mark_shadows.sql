-- Note that a walk has seen some items.
update poll.shadow set walk = :walk
where source = :source and walk < :walk and key in (select value from json_each(:keys))
