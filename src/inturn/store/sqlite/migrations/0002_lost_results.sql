-- Why what a handler returned could not be kept; its value is null then.
alter table result add column lost text;
