-- Jobs that are done while some of what waited for them is still to be let in: a settle lets in a
-- thousand, and later claims the rest.
create table admitting (
    job blob primary key
) without rowid;
