-- Versions by owner: an application has tables of its own. "oldest" is the oldest version of
-- programs that still work on the tables as this migration leaves them.
alter table inturn.schema_version
    add column owner text collate "C" not null default 'engine', add column oldest integer;
update inturn.schema_version set oldest = version;
alter table inturn.schema_version
    alter column owner drop default, alter column oldest set not null,
    drop constraint schema_version_pkey, add primary key (owner, version);
