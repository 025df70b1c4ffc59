create table ledger.payment (name text primary key, account text not null, cents integer not null);
create table ledger.charged (name text not null);
create table ledger.given_back (name text not null);
create table ledger.total (
    account text primary key, charged integer not null, given_back integer not null
);
