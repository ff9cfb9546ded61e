"""Checks of what a user passes, and maps between the units of a user and of a model."""
