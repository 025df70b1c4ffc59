-- Versions by owner: an application has tables of its own. "oldest" is the oldest version of
-- programs that still work on the tables as this migration leaves them.
create table schema_versions (
    owner text not null,
    version integer not null,
    oldest integer not null,
    migrated_at integer not null,
    primary key (owner, version)
) strict, without rowid;
insert into schema_versions select 'engine', version, version, migrated_at from schema_version;
drop table schema_version;
alter table schema_versions rename to schema_version;
