"""The executor: jobs in this process, without a store."""
