"""Peers, the experiments of the paper and measurements; not part of an installed package."""
