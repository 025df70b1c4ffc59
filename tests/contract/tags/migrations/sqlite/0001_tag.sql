-- Tags of notes.
create table tags.tag (
    note text not null references notes.note (job), tag text not null, primary key (note, tag)
);
