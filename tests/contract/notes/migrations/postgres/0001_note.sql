-- Notes, by their job. A kind like 'notes.note' stays as it is.
create table notes.note (job text primary key, text text not null default 'notes.note');
create index note_text on notes.note (text);
