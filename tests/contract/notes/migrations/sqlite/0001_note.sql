-- Notes, by their job. A kind like 'notes.note' stays as it is.
create table notes.note (job text primary key, text text not null default 'notes.note') strict;
create index notes.note_text on notes.note (text);
