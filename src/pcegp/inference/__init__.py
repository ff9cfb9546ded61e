"""Rows and a covariance to a likelihood with its gradient, and to a posterior."""
