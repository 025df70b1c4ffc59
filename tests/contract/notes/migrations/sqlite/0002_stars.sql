-- Notes may have stars.
-- oldest version that still works: 1
alter table notes.note add column stars integer not null default 0;
