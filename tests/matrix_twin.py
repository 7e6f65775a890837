"""The family written out once more: a text in, logits out, on plain tensors, from the papers' formulas. Imports nothing
from the package.

`w` is a state dict, whose names say where a matrix stands; a `Cell` says which parts a model is made of. Text by text,
head by head and, where that is the formula, token by token; no text is ever padded. Sources: each part's module names
its paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from twins import Weights, linear

EPS = {"layernorm": 1e-5, "rmsnorm": 1e-6, "scalenorm": 1e-5}


@dataclass(frozen=True)
class Cell:
    """One name of each axis. key_dims, value_dims: of each head; groups: heads of keys; latent: keys and values come
    from one vector, and `rope` coordinates of a key turn; cap, normed: of logits; of queries and keys."""

    topology: str
    position: str
    norm: str
    ffn: str
    residual: str
    key_dims: tuple[int, ...]
    value_dims: tuple[int, ...]
    groups: int
    latent: bool = False
    rope: int = 0
    normed: bool = False
    cap: float | None = None
    dim: int = 16
    num_layers: int = 2
    reach: int = 3
    num_buckets: int = 8
    max_distance: int = 20
    max_len: int = 24
    top_k: int = 2

    @property
    def num_heads(self) -> int:
        return len(self.key_dims)


# ---- parts ----


def norm(w: Weights, name: str, x: Tensor, kind: str) -> Tensor:
    eps = EPS[kind]
    if kind == "layernorm":
        centred = x - x.mean(-1, keepdim=True)
        return centred / torch.sqrt((centred**2).mean(-1, keepdim=True) + eps) * w[f"{name}.weight"] + w[f"{name}.bias"]
    if kind == "rmsnorm":
        return x / torch.sqrt((x**2).mean(-1, keepdim=True) + eps) * w[f"{name}.weight"]
    # Of a token that no gate lets through (reglu) nothing is left: g x / max(|x|, eps).
    return w[f"{name}.g"] * x / torch.sqrt((x**2).sum(-1, keepdim=True).clamp(min=eps**2))


def sigmoid(x: Tensor) -> Tensor:
    return 1 / (1 + torch.exp(-x))


def relu(x: Tensor) -> Tensor:
    return x * (x > 0)


def gelu(x: Tensor) -> Tensor:
    return x * (1 + torch.erf(x / math.sqrt(2))) / 2


def gelu_tanh(x: Tensor) -> Tensor:
    return x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2


PLAIN: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": relu,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "silu": lambda x: x * sigmoid(x),
}
GATED: dict[str, Callable[[Tensor], Tensor]] = {
    "glu": sigmoid,
    "reglu": relu,
    "geglu": gelu,
    "swiglu": lambda x: x * sigmoid(x),
    "bilinear": lambda x: x,
}


def feed(w: Weights, name: str, x: Tensor, cell: Cell, kind: str | None = None) -> Tensor:
    kind = kind or cell.ffn
    if kind in PLAIN:
        return linear(w, f"{name}.down", PLAIN[kind](linear(w, f"{name}.up", x)))
    if kind in GATED:
        return linear(w, f"{name}.down", GATED[kind](linear(w, f"{name}.gate", x)) * linear(w, f"{name}.up", x))
    scores = torch.exp(linear(w, f"{name}.router", x))
    said = []
    for token, score in zip(x, scores, strict=True):
        chosen = sorted(range(len(score)), key=lambda e: -score[e].item())[: cell.top_k]
        total = sum(score[e] for e in chosen)
        said.append(sum(score[e] / total * feed(w, f"{name}.experts.{e}", token, cell, "swiglu") for e in chosen))
    return torch.stack(said)


# ---- positions ----


def waves(position: int, dim: int, halves: bool) -> list[float]:
    angles = [position / 10000 ** (2 * i / dim) for i in range(dim // 2)]
    if halves:
        return [*map(math.sin, angles), *map(math.cos, angles)]
    return [f(angle) for angle in angles for f in (math.sin, math.cos)]


def placed(w: Weights, name: str, x: Tensor, cell: Cell) -> Tensor:
    if cell.position == "learned":
        return x + w[f"{name}.position.table.weight"][: len(x)]
    if cell.position in ("sinusoid", "sinusoid-halves"):
        halves = cell.position == "sinusoid-halves"
        return x + torch.tensor([waves(p, cell.dim, halves) for p in range(len(x))], dtype=x.dtype)
    return x


def turned(x: Tensor, layout: str) -> Tensor:
    """Complex numbers, each pair of coordinates one, times e^(i p r)."""
    width = x.shape[-1]
    half = width // 2
    a, b = (x[:, :half], x[:, half:]) if layout == "half" else (x[:, 0::2], x[:, 1::2])
    rates = torch.tensor([10000 ** (-2 * i / width) for i in range(half)], dtype=x.dtype)
    angles = torch.arange(len(x), dtype=x.dtype)[:, None] * rates
    z = torch.complex(a, b) * torch.complex(torch.cos(angles), torch.sin(angles))
    if layout == "half":
        return torch.cat([z.real, z.imag], -1)
    return torch.stack([z.real, z.imag], -1).flatten(1)


def bucket(away: int, num: int, far: int, both: bool) -> int:
    """T5's bucket of j - i."""
    begin, n = 0, -away
    if both:
        num //= 2
        begin, n = (num, -n) if n < 0 else (0, n)
    n = max(n, 0)
    exact = num // 2
    if n < exact:
        return begin + n
    return begin + min(num - 1, exact + math.floor(math.log(n / exact) / math.log(far / exact) * (num - exact) + 1e-9))


def slope(head: int, num_heads: int) -> float:
    """Of a power of two of heads."""
    return 2 ** (-8 * (head + 1) / num_heads)


def bias(
    w: Weights, name: str, q: Tensor, k: Tensor, head: int, scale: float, cell: Cell, both: bool
) -> Tensor | float:
    """What positions add to the logits of one head, (T, S) by every i and j."""
    here = range(len(q))

    def each(f: Callable[[int, int], Tensor | float]) -> Tensor:
        return torch.stack([torch.stack([torch.as_tensor(f(i, j), dtype=q.dtype) for j in here]) for i in here])

    def of_bucket(table: Tensor) -> Tensor:
        return each(lambda i, j: table[bucket(j - i, cell.num_buckets, cell.max_distance, both), head])

    match cell.position:
        case "alibi":
            return each(lambda i, j: -slope(head, cell.num_heads) * abs(i - j))
        case "shaw":
            table, reach = w[f"{name}.key_table"], cell.reach
            return each(lambda i, j: q[i] @ table[max(-reach, min(reach, j - i)) + reach] * scale)
        case "buckets":
            return of_bucket(w[f"{name}.table"])
        case "toeplitz":
            return each(lambda i, j: w[f"{name}.table"][j - i + cell.max_len - 1, head])
        case "xl":
            width = q.shape[1]
            r, u, v = w[f"{name}.r.weight"][head * width :][:width], w[f"{name}.u"][head], w[f"{name}.v"][head]

            def term(i: int, j: int) -> Tensor:
                wave = torch.tensor(waves(i - j, cell.dim, True), dtype=q.dtype)
                return (u @ k[j] + (q[i] + v) @ (r @ wave)) * scale

            return each(term)
        case "tupe":
            p = norm(w, f"{name}.norm", w[f"{name}.table.weight"][: len(q)], "layernorm")
            width = cell.dim // cell.num_heads
            mine, theirs = (linear(w, f"{name}.{side}", p)[:, head * width :][:, :width] for side in "qk")
            return mine @ theirs.T / math.sqrt(2 * width) + of_bucket(w[f"{name}.buckets.table"])
    return 0.0


# ---- attention ----


def look(logits: Tensor, see: Tensor) -> Tensor:
    shares = torch.exp(logits - logits.max()) * see
    return shares / shares.sum(-1, keepdim=True)


def attention(
    w: Weights, name: str, x: Tensor, context: Tensor, see: Tensor, cell: Cell, cross: bool, both: bool
) -> Tensor:
    if cell.latent:  # a pair's decoder reads the source with plain heads beside it
        even = (cell.dim // cell.num_heads,) * cell.num_heads
        cell = replace(cell, key_dims=even, value_dims=even)
    relation = f"{name}.relation"
    kept = cell.num_heads // cell.groups
    q = linear(w, f"{name}.q", x).split(cell.key_dims, -1)
    k = linear(w, f"{name}.k", context).split(cell.key_dims[: cell.groups], -1)
    v = linear(w, f"{name}.v", context).split(cell.value_dims[: cell.groups], -1)
    said = []
    for h in range(cell.num_heads):
        mine, theirs, value = q[h], k[h // kept], v[h // kept]
        if cell.normed:
            mine, theirs = norm(w, f"{name}.q_norm", mine, "rmsnorm"), norm(w, f"{name}.k_norm", theirs, "rmsnorm")
        scale = 1 / math.sqrt(cell.key_dims[h])
        added: Tensor | float = 0.0
        if not cross:
            scale = scale / math.sqrt(2) if cell.position == "tupe" else scale
            added = bias(w, relation, mine, theirs, h, scale, cell, both)
            if cell.position.startswith("rotary"):
                mine, theirs = (turned(one, cell.position.removeprefix("rotary-")) for one in (mine, theirs))
        logits = mine @ theirs.T * scale + added
        shares = look(logits if cell.cap is None else cell.cap * torch.tanh(logits / cell.cap), see)
        out = shares @ value
        if cell.position == "shaw" and not cross:
            table, reach = w[f"{relation}.value_table"], cell.reach
            rows = [[max(-reach, min(reach, j - i)) + reach for j in range(len(x))] for i in range(len(x))]
            out = out + torch.einsum("ts,tsj->tj", shares, table[torch.tensor(rows)])
        said.append(out)
    return linear(w, f"{name}.out", torch.cat(said, -1))


def latent(w: Weights, name: str, x: Tensor, see: Tensor, cell: Cell) -> Tensor:
    """DeepSeek-V2, equations 9 to 19, every head's keys and values written out."""
    c = norm(w, f"{name}.kv_norm", linear(w, f"{name}.kv_down", x), "rmsnorm")
    layout = cell.position.removeprefix("rotary-")
    u = norm(w, f"{name}.q_norm", linear(w, f"{name}.q_down", x), "rmsnorm")
    q = linear(w, f"{name}.q", u).split(cell.key_dims[0] + cell.rope, -1)
    k, v = (linear(w, f"{name}.{one}", c).chunk(cell.num_heads, -1) for one in "kv")
    said = []
    for h in range(cell.num_heads):
        mine, theirs = q[h][:, : cell.key_dims[0]], k[h]
        if cell.rope:
            mine = torch.cat([mine, turned(q[h][:, cell.key_dims[0] :], layout)], -1)
            theirs = torch.cat([theirs, turned(linear(w, f"{name}.k_rope", x), layout)], -1)
        said.append(look(mine @ theirs.T / math.sqrt(cell.key_dims[0] + cell.rope), see) @ v[h])
    return linear(w, f"{name}.out", torch.cat(said, -1))


# ---- layers ----


def depth_scales(cell: Cell) -> dict[str, float]:
    """DeepNorm's alpha of each stack (Wang et al. 2022, figure 2)."""
    n = cell.num_layers
    if cell.topology == "pair":
        return {"encoder": 0.81 * (n**4 * n) ** (1 / 16), "decoder": (3 * n) ** (1 / 4)}
    return {"stack": (2 * n) ** (1 / 4)}


def stack(
    w: Weights, name: str, x: Tensor, see: Tensor, cell: Cell, both: bool, context: Tensor | None = None
) -> Tensor:
    alpha = depth_scales(cell)[name]

    def join(place: str, x: Tensor, f: Callable[[Tensor], Tensor]) -> Tensor:
        match cell.residual:
            case "post":
                return norm(w, f"{place}.norm", x + f(x), cell.norm)
            case "deepnorm":
                return norm(w, f"{place}.norm", alpha * x + f(x), cell.norm)
            case "sandwich":
                return x + norm(w, f"{place}.norm_out", f(norm(w, f"{place}.norm", x, cell.norm)), cell.norm)
        return x + f(norm(w, f"{place}.norm", x, cell.norm))

    for i in range(cell.num_layers):
        layer = f"{name}.layers.{i}"

        def mix(h: Tensor, layer: str = layer) -> Tensor:
            if cell.latent:
                return latent(w, f"{layer}.mixer", h, see, cell)
            return attention(w, f"{layer}.mixer", h, h, see, cell, False, both)

        def read(h: Tensor, layer: str = layer) -> Tensor:
            whole = torch.ones(len(h), len(context), dtype=h.dtype)
            return attention(w, f"{layer}.cross", h, context, whole, cell, True, both)

        def think(h: Tensor, layer: str = layer) -> Tensor:
            return feed(w, f"{layer}.ffn", h, cell)

        if cell.residual == "parallel":
            h = norm(w, f"{layer}.norm", x, cell.norm)
            x = x + mix(h) + think(h) + (read(h) if context is not None else 0)
            continue
        x = join(f"{layer}.join_mixer", x, mix)
        x = x if context is None else join(f"{layer}.join_cross", x, read)
        x = join(f"{layer}.join_ffn", x, think)
    return x if cell.residual in ("post", "deepnorm") else norm(w, f"{name}.norm", x, cell.norm)


# ---- models ----


def logits(w: Weights, cell: Cell, tokens: list[int], source: list[int] = (), prefix: int = 0) -> Tensor:
    """(T, V) of one text; of a pair the text is its target, and the source stands beside it."""
    n = len(tokens)
    whole, past = torch.ones(n, n, dtype=torch.float64), torch.ones(n, n, dtype=torch.float64).tril()
    if cell.topology == "pair":
        table = w["source_embed.tokens.weight"]
        every = torch.ones(len(source), len(source), dtype=torch.float64)
        begun = placed(w, "source_embed", table[source] * math.sqrt(cell.dim), cell)
        context = stack(w, "encoder", begun, every, cell, True)
        name = "target_embed" if "target_embed.tokens.weight" in w else "source_embed"
        x = placed(w, name, table[tokens] * math.sqrt(cell.dim), cell)
        return stack(w, "decoder", x, past, cell, False, context) @ table.T
    table = w["embed.tokens.weight"]
    x = placed(w, "embed", table[tokens], cell)
    if cell.topology == "encoder":
        return stack(w, "stack", x, whole, cell, True) @ table.T + w["head.unembed.bias"]
    see = past.clone()
    see[:prefix, :prefix] = 1
    return stack(w, "stack", x, see, cell, cell.topology == "prefix") @ table.T
