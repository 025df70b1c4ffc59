"""The worker: claims jobs from a store, runs them on an executor, and settles them."""
