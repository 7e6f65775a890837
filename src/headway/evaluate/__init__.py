"""Measuring what a model says against what it should have said."""
