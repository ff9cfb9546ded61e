"""Compared methods, the experiments of the paper and measurements, for the extra `bench`."""
