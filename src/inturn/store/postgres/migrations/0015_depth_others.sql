-- oldest version that still works: 14
-- What a large queue holds outside its active lanes, and what was accepted since it was counted.
alter table inturn.depth add column others bigint not null default 0;
