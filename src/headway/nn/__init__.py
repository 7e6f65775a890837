"""Parts: tensors in, tensors out. Plain arguments and built parts; no configs, files, ranks or vocabularies.

Letters: B batch, T query time, S key time, D width, H heads, K key width of a head, J value width of a head, F ffn, V
vocabulary, U sources.
One convention holds everywhere: **position -1 marks a slot that holds no token** (padding, on either side). Such a
slot is never looked at
and never written to a cache; what a part returns there is finite and unspecified.
"""
