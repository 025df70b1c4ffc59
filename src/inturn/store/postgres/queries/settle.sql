-- Say what became of leased jobs.
select inturn.settle(
    $1::text::bigint[], $2::text::bigint[],
    $3::text::bigint[], $4::text::bigint[], $5::text::bigint[], $6::text::bigint[],
    $7::text::bigint[], $8::text::bigint[], $9::text::bigint[], $10::text::bigint[],
    $11::text::bigint[], $12, $13, $14, $15, $16, $17)
