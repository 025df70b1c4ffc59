"""Stores: where jobs, lanes and leases live. SQL is here and in no layer above."""
