insert into ledger.given_back (name) values (:name)
