-- Say what is wrong with a payload that comes from SQL, where nobody has read it before; null if
-- nothing is. What Python refuses is refused here, or a worker would get what it cannot read. Each
-- dear look is taken only after a cheap one that found a sign.
create or replace function inturn.wrong_payload(p_text text) returns text
language plpgsql immutable as $$
begin
    return case
        when p_text is null
            then 'payload is null: use the JSON text ''null'' for nothing'
        when octet_length(p_text) > 1048576
            then 'payload has more than 1048576 bytes'
        when octet_length(p_text) - octet_length(translate(p_text, '[{', '')) > 200
             and inturn.is_deep(p_text)
            then 'payload is nested more than 200 deep'
        when p_text ~ '[0-9]{250}|[0-9][eE][+]?[0-9]{3}' and inturn.has_huge_number(p_text)
            then 'payload holds a number too large for a double, or of more than 4300 digits: '
                 'send it as text'
        when p_text ~ '\\u0000' and not inturn.is_jsonb(p_text)
            then 'payload holds NUL (U+0000)'
        when p_text ~* '\\ud[89a-f]' and not inturn.is_jsonb(p_text)
            then 'payload holds a lone surrogate'
    end;
end $$;

-- Whether JSON is nested more than 200 deep: so many times the innermost brackets are taken away,
-- and some are left.
create or replace function inturn.is_deep(p_text text) returns boolean
language plpgsql immutable as $$
declare
    v_brackets text := translate(
        regexp_replace(inturn.without_strings(p_text), '[^][{}]', '', 'g'), '{}', '[]');
begin
    for i in 1 .. 200 loop
        exit when v_brackets = '';
        v_brackets := replace(v_brackets, '[]', '');
    end loop;
    return v_brackets <> '';
end $$;

-- Whether JSON holds a number that Python does not read: a whole one of more than 4300 digits, or
-- another one that is rounded to infinity, from 2^1024 - 2^970 on.
create or replace function inturn.has_huge_number(p_text text) returns boolean
language plpgsql immutable as $$
begin
    return exists (
        select
        from regexp_matches(
            inturn.without_strings(p_text),
            '([0-9]+)([.][0-9]+)?([eE][+-]?[0-9]+)?', 'g') as n(part)
        where case
            when num_nonnulls(n.part[2], n.part[3]) = 0 then length(n.part[1]) > 4300
            else concat(n.part[1], n.part[2], n.part[3])::numeric
                 >= 2::numeric ^ 1024 - 2::numeric ^ 970
        end);
exception when data_exception then
    return true;  -- not even a numeric holds it
end $$;

-- JSON with nothing in its strings.
create or replace function inturn.without_strings(p_text text) returns text
language sql immutable as $$
    select regexp_replace(p_text, '"([^"\\]|\\.)*"', '""', 'g')
$$;

-- Whether text is JSON that jsonb can hold: no NUL, no lone surrogate.
create or replace function inturn.is_jsonb(p_text text) returns boolean
language plpgsql immutable as $$
begin
    perform p_text::jsonb;
    return true;
exception when others then
    return false;
end $$;
