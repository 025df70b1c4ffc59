-- Statements that let inturn.enqueue and inturn.enqueue_many call the functions of the set $1.
-- They are replaced in place, so that rights on them stay, and dropped first only where what they
-- take or return has changed.
select
    coalesce((
        select string_agg(format('drop function %s;', w.oid::regprocedure), ' ')
        from pg_proc w
        where w.pronamespace = 'inturn'::regnamespace and w.proname = ours.proname
            and (pg_get_function_arguments(w.oid), pg_get_function_result(w.oid))
                is distinct from
                (pg_get_function_arguments(ours.oid), pg_get_function_result(ours.oid))
    ), '')
    || format(
        'create or replace function inturn.%I(%s) returns %s language sql '
        'as $public$ %s %I.%I(%s) $public$',
        ours.proname, pg_get_function_arguments(ours.oid), pg_get_function_result(ours.oid),
        case when ours.proretset then 'select * from' else 'select' end,
        $1::text, ours.proname,
        (select string_agg('$' || n, ', ') from generate_series(1, ours.pronargs) n))
from pg_proc ours
where ours.pronamespace = to_regnamespace($1) and ours.proname in ('enqueue', 'enqueue_many')
