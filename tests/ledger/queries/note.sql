update ledger.payment set note = :text where name = :name
