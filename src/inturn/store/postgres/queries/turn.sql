-- A worker's turn: say what became of leased jobs, and lease the next. No rows where the claim
-- found nothing, or found every open lane in another claim's hands: then claim by itself.
--
-- In this order because the claim is told what the settle returns.
select c.*
from inturn.settle(
    $1::text::bigint[], $2::text::bigint[],
    $3::text::bigint[], $4::text::bigint[], $5::text::bigint[], $6::text::bigint[],
    $7::text::bigint[], $8::text::bigint[], $9::text::bigint[], $10::text::bigint[],
    $11::text::bigint[], $12, $13, $14, $15, $16, false, $17) as settled(lanes)
cross join lateral inturn.claim($17, $18, $15, $19, $20, $21, $16, settled.lanes) c
