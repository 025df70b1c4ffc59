insert into ledger.total (account, charged, given_back)
select
    p.account,
    coalesce(sum((select count(*) from ledger.charged c where c.name = p.name) * p.cents), 0),
    coalesce(sum((select count(*) from ledger.given_back g where g.name = p.name) * p.cents), 0)
from ledger.payment p
group by p.account
on conflict (account) do update
set charged = excluded.charged, given_back = excluded.given_back
