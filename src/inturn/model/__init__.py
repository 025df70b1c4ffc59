"""The nouns: what a job, a lane, a lease and an error are. Nothing here touches a store."""
