"""Compiled loops, Cholesky factors, threads and memory: arrays, nothing of Gaussian processes."""
