"""What ``inturn demo`` plays: a small shop whose workers are processes."""
