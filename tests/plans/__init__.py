"""The hot paths use their indexes, and cost the same whatever the backlog."""
