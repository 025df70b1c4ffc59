"""The verbs that users call: an app, its jobs, and the tickets they give."""
