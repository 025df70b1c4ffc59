-- Forget some of the dedupe keys whose window is over.
delete from dedupe indexed by dedupe_until where (queue, dedupe) in (
    select queue, dedupe from dedupe indexed by dedupe_until where until <= ?1 limit ?2
)
