"""Turning a model into text: search, sampling and forced scoring over the decoding protocol."""
