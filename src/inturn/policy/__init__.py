"""Pure decisions: what becomes of a job, given what is known. No clock, no store, no sleep."""
