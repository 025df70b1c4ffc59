insert into ledger.charged (name) values (:name)
