"""Data: readers of parallel text, and token-budget batches in an order that a seed fixes."""
