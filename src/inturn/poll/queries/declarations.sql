-- What the programs declare that have been heard of lately.
select names from poll.declaration where seen_at >= :since
