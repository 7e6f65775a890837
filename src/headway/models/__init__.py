"""Whole models, one file per shape. Each offers a call for training and the decoding protocol
(`headway.models.state`)."""
