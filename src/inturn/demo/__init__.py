"""What ``inturn demo`` shows: a small shop whose workers are processes, one of them killed."""
