-- Forget programs that nobody runs any more.
delete from poll.declaration where seen_at < :before
