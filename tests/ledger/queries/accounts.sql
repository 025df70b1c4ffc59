select t.account, t.charged, t.given_back from ledger.total t order by t.account
