"""The methods that the paper compares with, and what a user would pick instead."""
