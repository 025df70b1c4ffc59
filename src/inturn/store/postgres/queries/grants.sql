-- Statements that give whoever may use the schema inturn and its jobs the same rights on what a
-- migration has just made: schemas (inturn or one of $1), tables and sequences on which nobody was
-- given any yet.
with ours as (
    select oid, nspname, nspacl, nspowner from pg_namespace
    where nspname = 'inturn' or nspname = any($1::text[])
), given (kind, acl) as (
    select 'schema', nspacl from ours where nspname = 'inturn'
    union all select 'table', relacl from pg_class where oid = 'inturn.job'::regclass
    union all select 'sequence', relacl from pg_class where oid = 'inturn.token'::regclass
), made (kind, name, owner) as (
    select 'schema', quote_ident(nspname), nspowner from ours where nspacl is null
    union all
    select case c.relkind when 'S' then 'sequence' else 'table' end,
           format('%I.%I', o.nspname, c.relname), c.relowner
    from ours o join pg_class c on c.relnamespace = o.oid
    where c.relkind in ('r', 'v', 'S') and c.relacl is null
)
select format('grant %s on %s %s to %s', a.privilege_type, made.kind, made.name,
              case a.grantee when 0 then 'public' else a.grantee::regrole::text end)
from made
join given on given.kind = made.kind
cross join lateral aclexplode(given.acl) a
where a.grantee <> made.owner
