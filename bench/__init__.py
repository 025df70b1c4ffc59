"""Benchmarks: inturn beside plain references and peers, as ratios of one run."""
