-- Drop every function of the schema, to make them anew in the same transaction. What triggers run
-- is part of the tables, and stays.
do $$
declare
    f record;
begin
    for f in
        select p.oid::regprocedure as name
        from pg_proc p
        where p.pronamespace = to_regnamespace('inturn') and p.prorettype <> 'trigger'::regtype
    loop
        execute format('drop function if exists %s', f.name);
    end loop;
end $$
