-- An array of one made as long as is wanted; any other as it is.
create or replace function inturn.spread(p_values anyarray, p_count integer) returns anyarray
language sql immutable parallel safe as $$
    select case
        when cardinality(p_values) = 1 and p_count > 1
            then array_fill(p_values[1], array[p_count])
        else p_values
    end
$$;
