"""Independent twins: the paper's equations written out once more, on plain tensors. Imports nothing from the package.

`Weights` is a state dict; keys say where a matrix stands. Float64 on the CPU, one sentence or head at a time where
that reads better.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

Weights = dict[str, Tensor]


def linear(w: Weights, name: str, x: Tensor) -> Tensor:
    y = torch.einsum("...i,oi->...o", x, w[f"{name}.weight"])
    return y + w[f"{name}.bias"] if f"{name}.bias" in w else y


def layer_norm(w: Weights, name: str, x: Tensor, eps: float = 1e-5) -> Tensor:
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt(variance + eps) * w[f"{name}.weight"] + w[f"{name}.bias"]


def attention(w: Weights, name: str, x: Tensor, context: Tensor, num_heads: int, see: Tensor) -> Tensor:
    """Multi-head attention for one sentence: x (T, D), context (S, D), see (T, S) True = may look."""
    q, k, v = linear(w, f"{name}.q", x), linear(w, f"{name}.k", context), linear(w, f"{name}.v", context)
    heads = []
    for qh, kh, vh in zip(q.chunk(num_heads, -1), k.chunk(num_heads, -1), v.chunk(num_heads, -1), strict=True):
        logits = torch.einsum("tk,sk->ts", qh, kh) / math.sqrt(qh.shape[-1])
        weights = torch.exp(logits) * see
        heads.append(torch.einsum("ts,sj->tj", weights / weights.sum(-1, keepdim=True), vh))
    return linear(w, f"{name}.out", torch.cat(heads, -1))


def positions(length: int, dim: int) -> Tensor:
    table = torch.zeros(length, dim, dtype=torch.float64)
    for p in range(length):
        for i in range(0, dim, 2):
            angle = p / 10000 ** (i / dim)
            table[p, i] = math.sin(angle)
            if i + 1 < dim:
                table[p, i + 1] = math.cos(angle)
    return table


def transformer(
    w: Weights, source: list[int], target: list[int], *, num_layers: int, num_heads: int, pre: bool = False
) -> Tensor:
    """Logits (T, V) of one sentence pair, without padding or dropout; three-way tied, sinusoids, post- or pre-norm."""
    table = w["source_embed.tokens.weight"]
    dim = table.shape[1]

    def embed(ids: list[int]) -> Tensor:
        return table[ids] * math.sqrt(dim) + positions(len(ids), dim)

    def join(layer: str, name: str, x: Tensor, f) -> Tensor:
        norm = f"{layer}.join_{name}.norm"
        return x + f(layer_norm(w, norm, x)) if pre else layer_norm(w, norm, x + f(x))

    def feed(layer: str):
        return lambda h: linear(w, f"{layer}.ffn.down", linear(w, f"{layer}.ffn.up", h).clamp(min=0))

    x = embed(source)
    everything = torch.ones(len(source), len(source))
    for i in range(num_layers):
        layer = f"encoder.layers.{i}"
        x = join(layer, "mixer", x, lambda h, n=layer: attention(w, f"{n}.mixer", h, h, num_heads, everything))
        x = join(layer, "ffn", x, feed(layer))
    context = layer_norm(w, "encoder.norm", x) if pre else x

    y = embed(target)
    past = torch.ones(len(target), len(target)).tril()
    whole = torch.ones(len(target), len(source))
    for i in range(num_layers):
        layer = f"decoder.layers.{i}"
        y = join(layer, "mixer", y, lambda h, n=layer: attention(w, f"{n}.mixer", h, h, num_heads, past))
        y = join(layer, "cross", y, lambda h, n=layer: attention(w, f"{n}.cross", h, context, num_heads, whole))
        y = join(layer, "ffn", y, feed(layer))
    y = layer_norm(w, "decoder.norm", y) if pre else y
    return torch.einsum("td,vd->tv", y, table)


def rnnsearch(w: Weights, source: list[int], target: list[int], *, num_layers: int) -> Tensor:
    """Logits (T, V) of one pair: bidirectional GRU encoder layers without skips, RNNsearch decoder with input
    feeding."""
    x = w["source_embed.tokens.weight"][source]

    def gru(name: str, v: Tensor, h: Tensor) -> Tensor:
        xr, xz, xn = linear(w, f"{name}.input", v).chunk(3)
        hr, hz, hn = linear(w, f"{name}.hidden", h).chunk(3)
        r, z = 1 / (1 + torch.exp(-xr - hr)), 1 / (1 + torch.exp(-xz - hz))
        return (1 - z) * torch.tanh(xn + r * hn) + z * h

    for i in range(num_layers):
        half = x.shape[1] // 2
        forth, back = [torch.zeros(half, dtype=x.dtype)], [torch.zeros(half, dtype=x.dtype)]
        for v in x:
            forth.append(gru(f"encoder.layers.{i}.mixer.forth", v, forth[-1]))
        for v in x.flip(0):
            back.append(gru(f"encoder.layers.{i}.mixer.back", v, back[-1]))
        x = torch.cat([torch.stack(forth[1:]), torch.stack(back[:0:-1])], -1)

    s = torch.tanh(linear(w, "decoder.initial", x[0]))
    a = torch.zeros_like(s)
    out = []
    for y in w["target_embed.tokens.weight"][target]:
        energies = linear(w, "decoder.energy", torch.tanh(linear(w, "decoder.query", s) + linear(w, "decoder.key", x)))
        weights = torch.exp(energies[:, 0]) / torch.exp(energies[:, 0]).sum()
        c = (weights[:, None] * x).sum(0)
        s = gru("decoder.cell", torch.cat([y, a, c]), s)
        pairs = linear(w, "decoder.readout", torch.cat([s, y, c])).view(-1, 2)
        a = torch.maximum(pairs[:, 0], pairs[:, 1])
        out.append(a)
    return torch.stack(out) @ w["unembed.weight"].T
