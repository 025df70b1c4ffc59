-- What the programs declare that have been heard of lately.
select names, sources from poll.declaration where seen_at >= :since
