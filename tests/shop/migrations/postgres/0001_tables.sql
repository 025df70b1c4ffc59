create table shop.item (
    id text primary key,
    name text not null,
    size text not null,
    sold boolean not null default false,
    sold_at timestamptz
);
