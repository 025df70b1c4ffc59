-- When workers of a program last said which schedules they declare.
select seen_at from poll.declaration where digest = :digest
