-- Say what is wrong with a payload that comes from SQL; null if nothing is. What jsonb holds and
-- Python does not read (a huge number, nesting more than 200 deep) makes its job a dead letter.
create or replace function inturn.wrong_payload(p_text text) returns text
language plpgsql immutable as $$
begin
    if p_text is null then
        return 'payload is null: use the JSON text ''null'' for nothing';
    end if;
    if octet_length(p_text) > 1048576 then
        return 'payload has more than 1048576 bytes';
    end if;
    perform p_text::jsonb;
    return null;
exception when others then
    return format('payload cannot be kept: %s', sqlerrm);
end $$;
