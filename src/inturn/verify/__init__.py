"""What ``inturn verify`` does: real processes, faults, a history of it all, and what it proves."""
