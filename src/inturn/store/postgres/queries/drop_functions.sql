-- Drop every function of the schema, to make them anew in the same transaction.
do $$
declare
    f record;
begin
    for f in
        select p.oid::regprocedure as name
        from pg_proc p
        where p.pronamespace = to_regnamespace('inturn')
    loop
        execute format('drop function if exists %s', f.name);
    end loop;
end $$
