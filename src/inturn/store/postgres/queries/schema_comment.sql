-- What is noted at the schema: which functions are in it.
select obj_description(to_regnamespace('inturn'), 'pg_namespace')
