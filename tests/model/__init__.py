"""A model of lanes, tails and leases, explored in every order its steps can happen."""
