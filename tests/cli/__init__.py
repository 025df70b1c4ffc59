"""The command as a person runs it, in a process of its own."""
