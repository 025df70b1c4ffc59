create table shop.item (
    id text primary key,
    name text not null,
    size text not null,
    sold integer not null default 0,
    sold_at integer
) strict, without rowid;
