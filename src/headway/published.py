"""Shapes that others have published, by name: the `[model]` section of each as a table, and the size of its vocabulary.
No code looks at a name. The page about them is docs/guide/published-shapes.md; tests/test_published.py holds their
parameters against those of the published models.

Each computes what was published: norms and their eps, activations, biases, positions, scales. Where a published file
holds parameters that are not here, or a paper leaves something open, a comment says what.
"""

from typing import Any

Table = dict[str, Any]
Published = tuple[int, Table]
"""Pieces of the vocabulary, and the model."""

NO_POSITION = {"kind": "none"}


def _stack(layers: list[Table], mixer: Table, residual: str, norm: Table, **layer: Any) -> Table:
    return {"kind": "stack", "layer": {"mixer": mixer, "residual": residual, "norm": norm, **layer}, "layers": layers}


def _repeat(num: int, **layer: Any) -> list[Table]:
    return [{"repeat": num, **layer}]


# ---- GPT: Radford et al. 2018 (post-norm) and 2019 (pre-norm), Brown et al. 2020 ----


def _gpt(dim: int, num_layers: int, num_heads: int, max_len: int, residual: str = "pre") -> Table:
    """gelu is the approximation by tanh in all of them; all the dropouts are 0.1."""
    mixer = {"kind": "attention", "num_heads": num_heads, "dropout": 0.1}
    ffn, norm = {"kind": "gelu_tanh", "dim": 4 * dim}, {"kind": "layernorm", "eps": 1e-5}
    return {
        "kind": "lm",
        "dim": dim,
        "position": {"kind": "learned", "max_len": max_len},
        "stack": _stack(_repeat(num_layers), mixer, residual, norm, ffn=ffn),
    }


GPT: dict[str, Published] = {
    "gpt": (40478, _gpt(768, 12, 12, 512, "post")),
    "gpt2": (50257, _gpt(768, 12, 12, 1024)),
    "gpt2-medium": (50257, _gpt(1024, 24, 16, 1024)),
    "gpt2-large": (50257, _gpt(1280, 36, 20, 1024)),
    "gpt2-xl": (50257, _gpt(1600, 48, 25, 1024)),
    "distilgpt2": (50257, _gpt(768, 6, 12, 1024)),
    # Every other layer of GPT-3 looks at a band of the text only, of a width that the paper does not tell; here all
    # layers look at all of it. Table 2.1 prints 24 heads of 128 for XL, which do not make its 2048; 16 of them do.
    "gpt3-small": (50257, _gpt(768, 12, 12, 2048)),
    "gpt3-xl": (50257, _gpt(2048, 24, 16, 2048)),
    "gpt3-175b": (50257, _gpt(12288, 96, 96, 2048)),
}


# ---- BERT: Devlin et al. 2019; RoBERTa: Liu et al. 2019; ALBERT: Lan et al. 2020 ----


def _bert(
    dim: int,
    num_layers: int,
    num_heads: int,
    *,
    segments: int = 2,
    eps: float = 1e-12,
    dropout: float = 0.1,
    activation: str = "gelu",
    embed_dim: int | None = None,
) -> Table:
    """With the head for words. The pooler and the sentence head of the published files are another head's:
    `head = {kind = "classes", num = 2}`. embed_dim: there is one layer then, gone through again and again (ALBERT)."""
    mixer = {"kind": "attention", "num_heads": num_heads, "dropout": dropout}
    norm, shared = {"kind": "layernorm", "eps": eps}, embed_dim is not None
    layers = _stack(_repeat(1 if shared else num_layers), mixer, "post", norm, ffn={"kind": activation, "dim": 4 * dim})
    return {
        "kind": "encoder",
        "dim": dim,
        "dropout": dropout,
        "position": {"kind": "learned", "max_len": 512},
        "embed_norm": norm,
        "segments": segments,
        "stack": {**layers, "passes": num_layers if shared else 1},
        "head": {"kind": "words", "transform": activation, "bias": True, "tie": True},
        **({"embed_dim": embed_dim} if shared else {}),
    }


def _albert(dim: int, num_layers: int, num_heads: int) -> Table:
    """Version 2 trains without dropout."""
    return _bert(dim, num_layers, num_heads, dropout=0.0, activation="gelu_tanh", embed_dim=128)


BERT: dict[str, Published] = {
    # gelu by erf, as in the files for transformers; Google's own code approximates it by tanh, within 5e-4.
    "bert-base-uncased": (30522, _bert(768, 12, 12)),
    "bert-base-cased": (28996, _bert(768, 12, 12)),
    "bert-large-uncased": (30522, _bert(1024, 24, 16)),
    # Its file has 514 positions, of which text stands on the last 512.
    "roberta-base": (50265, _bert(768, 12, 12, segments=1, eps=1e-5)),
    "albert-base-v2": (30000, _albert(768, 12, 12)),
    "albert-large-v2": (30000, _albert(1024, 24, 16)),
    "albert-xlarge-v2": (30000, _albert(2048, 24, 16)),
    "albert-xxlarge-v2": (30000, _albert(4096, 12, 64)),
}


# ---- XLNet: Yang et al. 2019 ----


def _xlnet(dim: int, num_layers: int, num_heads: int) -> Table:
    """Each layer of the published files also says of two tokens whether they are of one text (a bias and two vectors a
    head), which is not here: texts of one kind."""
    mixer = {"kind": "attention", "num_heads": num_heads, "bias": False, "dropout": 0.1, "position": {"kind": "xl"}}
    ffn = {"kind": "gelu", "dim": 4 * dim, "dropout": 0.1}
    return {
        "kind": "encoder",
        "dim": dim,
        "position": NO_POSITION,
        "two_streams": True,
        "stack": _stack(_repeat(num_layers), mixer, "post", {"kind": "layernorm", "eps": 1e-12}, ffn=ffn),
        "head": {"kind": "words", "transform": "none", "bias": True, "tie": True},
    }


XLNET: dict[str, Published] = {
    "xlnet-base": (32000, _xlnet(768, 12, 12)),
    "xlnet-large": (32000, _xlnet(1024, 24, 16)),
}


# ---- pairs: T5 (Raffel et al. 2020), BART (Lewis et al. 2020), Marian (Tiedemann and Thottingal 2020) ----


def _pair(num_layers: int, mixer: Table, norm: Table, ffn: Table, residual: str, **shape: Any) -> Table:
    def side(mixer: Table) -> Table:
        return _stack(_repeat(num_layers), mixer, residual, norm, ffn=ffn)

    return {"kind": "seq2seq", **shape, "encoder": side(mixer), "decoder": side(mixer)}


def _t5(dim: int, ffn: Table, num_layers: int, num_heads: int, **output: Any) -> Table:
    """Logits of attention are not scaled: the paper's queries begin that much smaller. What T5 drops of the last norm's
    output while it trains is not here."""
    mixer = {
        "kind": "attention",
        "num_heads": num_heads,
        "key_dim": 64,
        "value_dim": 64,
        "bias": False,
        "dropout": 0.1,
        "scale": 1.0,
        "position": {"kind": "buckets", "num_buckets": 32, "max_distance": 128},
    }
    norm, shape = {"kind": "rmsnorm", "eps": 1e-6}, {"dim": dim, "scale_embedding": False, "position": NO_POSITION}
    return _pair(num_layers, mixer, norm, {"bias": False, "dropout": 0.1, **ffn}, "pre", **shape, **output)


def _t5_first(dim: int, ffn_dim: int, num_layers: int, num_heads: int) -> Table:
    """All three tables are one, and what it is held against is scaled."""
    ffn = {"kind": "relu", "dim": ffn_dim}
    return _t5(dim, ffn, num_layers, num_heads, tie="all", output={"scale": dim**-0.5})


PAIRS: dict[str, Published] = {
    "t5-small": (32128, _t5_first(512, 2048, 6, 8)),
    "t5-base": (32128, _t5_first(768, 3072, 12, 12)),
    "t5-large": (32128, _t5_first(1024, 4096, 24, 16)),
    "t5-v1.1-small": (32128, _t5(512, {"kind": "geglu_tanh", "dim": 1024}, 8, 6, tie="source")),
    # Its file has 1026 positions a side, of which text stands on the last 1024, and a bias of the logits that is 0.
    "bart-base": (
        50265,
        _pair(
            6,
            {"kind": "attention", "num_heads": 12, "dropout": 0.1},
            {"kind": "layernorm", "eps": 1e-5},
            {"kind": "gelu", "dim": 3072, "dropout": 0.1},
            "post",
            dim=768,
            scale_embedding=False,
            position={"kind": "learned", "max_len": 1024, "shared": False},
            embed_norm={"kind": "layernorm", "eps": 1e-5},
        ),
    ),
    # As Marian itself computes, which trained it: the rates of its sinusoids end at 1 / base and its eps is 1e-6, where
    # transformers has other rates and 1e-5. The bias of the logits is a parameter here and a buffer there; its
    # sinusoids are two tables there and computed here.
    "marian-opus-mt-en-de": (
        58101,
        _pair(
            6,
            {"kind": "attention", "num_heads": 8},
            {"kind": "layernorm", "eps": 1e-6},
            {"kind": "silu", "dim": 2048},
            "post",
            dim=512,
            position={"kind": "sinusoid", "layout": "tensor2tensor"},
            output={"bias": True},
        ),
    ),
}


# ---- Llama (Touvron et al. 2023; Grattafiori et al. 2024), Mistral (Jiang et al. 2023, 2024) ----


def _decoder(dim: int, stack: Table, **shape: Any) -> Table:
    """What all below have in common: positions in attention alone, and no dropout."""
    return {"kind": "lm", "dim": dim, "dropout": 0.0, "position": NO_POSITION, "stack": stack, **shape}


def _llama(
    dim: int,
    ffn_dim: int,
    num_layers: int,
    num_heads: int,
    num_kv_heads: int,
    *,
    rotary: Table | None = None,
    tie: bool = False,
    window: int | None = None,
    ffn: Table | None = None,
) -> Table:
    """Coordinates turn with those half a head away, as in the files for transformers; in Meta's own they turn with
    their neighbours, and rows of q and k stand in another order."""
    mixer = {
        "kind": "attention" if window is None else "window",
        "num_heads": num_heads,
        "num_kv_heads": num_kv_heads,
        "bias": False,
        "position": {"kind": "rotary", **(rotary or {})},
        **({} if window is None else {"window": window}),
    }
    ffn = ffn or {"kind": "swiglu", "dim": ffn_dim}
    return _decoder(dim, _stack(_repeat(num_layers), mixer, "pre", {"kind": "rmsnorm", "eps": 1e-5}, ffn=ffn), tie=tie)


def _experts(dim: int, num: int, top_k: int, **told: Any) -> Table:
    return {"kind": "experts", "expert": {"kind": "swiglu", "dim": dim}, "num": num, "top_k": top_k, **told}


LLAMA_3_2 = {
    "base": 500000.0,
    "scaling": {"kind": "llama3", "factor": 32.0, "low": 1.0, "high": 4.0, "trained_len": 8192},
}

LLAMA: dict[str, Published] = {
    "llama-2-7b": (32000, _llama(4096, 11008, 32, 32, 32)),
    "llama-3-8b": (128256, _llama(4096, 14336, 32, 32, 8, rotary={"base": 500000.0})),
    "llama-3.2-1b": (128256, _llama(2048, 8192, 16, 32, 8, rotary=LLAMA_3_2, tie=True)),
    "tinyllama-1.1b": (32000, _llama(2048, 5632, 22, 32, 4)),
    "mistral-7b": (32000, _llama(4096, 14336, 32, 32, 8, window=4096)),
    "mixtral-8x7b": (32000, _llama(4096, 14336, 32, 32, 8, rotary={"base": 1e6}, ffn=_experts(14336, 8, 2))),
}


# ---- PaLM: Chowdhery et al. 2022 ----


def _palm(dim: int, num_layers: int, num_heads: int) -> Table:
    """No biases, in norms neither. The paper tells no eps."""
    mixer = {
        "kind": "attention",
        "num_heads": num_heads,
        "num_kv_heads": 1,
        "key_dim": 256,
        "value_dim": 256,
        "bias": False,
        "position": {"kind": "rotary"},
    }
    ffn, norm = {"kind": "swiglu", "dim": 4 * dim}, {"kind": "layernorm", "bias": False}
    stack = _stack(_repeat(num_layers), mixer, "parallel", norm, ffn=ffn)
    return _decoder(dim, stack, tie=True, output={"scale": dim**-0.5})


PALM: dict[str, Published] = {
    "palm-8b": (256000, _palm(4096, 32, 16)),
    "palm-62b": (256000, _palm(8192, 64, 32)),
    "palm-540b": (256000, _palm(18432, 118, 48)),
}


# ---- Chinchilla: Hoffmann et al. 2022, which is Gopher (Rae et al. 2021) at another size ----


def _chinchilla(dim: int, num_layers: int, num_heads: int) -> Table:
    """GPT-2's block, with RMSNorm and the relative positions of Transformer-XL, as the paper of Gopher says and no
    more: eps is RMSNorm's usual one, biases, gelu and one table for both ends are GPT-2's."""
    mixer = {"kind": "attention", "num_heads": num_heads, "position": {"kind": "xl"}}
    ffn = {"kind": "gelu_tanh", "dim": 4 * dim}
    return _decoder(dim, _stack(_repeat(num_layers), mixer, "pre", {"kind": "rmsnorm"}, ffn=ffn), tie=True)


CHINCHILLA: dict[str, Published] = {"chinchilla-70b": (32000, _chinchilla(8192, 80, 64))}


# ---- Gemma: Gemma Team 2024 (and Gemma 2, 2024) ----

GEMMA_NORM = {"kind": "rmsnorm", "eps": 1e-6, "offset": True}


def _gemma_attention(num_heads: int, num_kv_heads: int, **told: Any) -> Table:
    heads = {"num_heads": num_heads, "num_kv_heads": num_kv_heads, "key_dim": 256, "value_dim": 256}
    return {"kind": "attention", **heads, "bias": False, "position": {"kind": "rotary"}, **told}


def _gemma(dim: int, ffn_dim: int, num_layers: int, num_heads: int, num_kv_heads: int) -> Table:
    """sqrt(dim), which scales the embedding, is rounded to bfloat16 in the published code."""
    mixer, ffn = _gemma_attention(num_heads, num_kv_heads), {"kind": "geglu_tanh", "dim": ffn_dim}
    return _decoder(dim, _stack(_repeat(num_layers), mixer, "pre", GEMMA_NORM, ffn=ffn), scale_embedding=True)


def _gemma_2(dim: int, ffn_dim: int, num_layers: int, num_heads: int, num_kv_heads: int) -> Table:
    """Every other layer, from the first on, looks 4096 tokens back at most."""
    everywhere = _gemma_attention(num_heads, num_kv_heads, logit_cap=50.0)
    layers = [{"mixer": {"kind": "window", "window": 4096}}, {"mixer": {"kind": "attention"}}] * (num_layers // 2)
    stack = _stack(layers, everywhere, "sandwich", GEMMA_NORM, ffn={"kind": "geglu_tanh", "dim": ffn_dim})
    return _decoder(dim, stack, scale_embedding=True, output={"logit_cap": 30.0})


GEMMA: dict[str, Published] = {
    "gemma-2b": (256000, _gemma(2048, 16384, 18, 8, 1)),
    "gemma-7b": (256000, _gemma(3072, 24576, 28, 16, 16)),
    "gemma-2-2b": (256000, _gemma_2(2304, 9216, 26, 8, 4)),
}


# ---- DeepSeek: DeepSeek-V2 (2024) and DeepSeek-V3 (2024) ----


def _deepseek(
    dim: int,
    num_heads: int,
    *,
    dense: list[Table],
    mixed: list[Table],
    q_rank: int | None = None,
    **shape: Any,
) -> Table:
    """As they were trained, on 4096 tokens; the published files then stretch rotary positions (YaRN). dense, mixed: the
    first layers, and those with experts."""
    mixer = {
        "kind": "latent",
        "num_heads": num_heads,
        "kv_rank": 512,
        "head_dim": 128,
        "rope_dim": 64,
        "value_dim": 128,
        "norm": {"kind": "rmsnorm", "eps": 1e-6},
        **({} if q_rank is None else {"q_rank": q_rank}),
    }
    stack = _stack([*dense, *mixed], mixer, "pre", {"kind": "rmsnorm", "eps": 1e-6})
    return _decoder(dim, stack, tie=False, **shape)


def _dense(num: int, ffn_dim: int) -> list[Table]:
    return _repeat(num, ffn={"kind": "swiglu", "dim": ffn_dim})


# Version 2 takes the chosen shares as they are; 16 makes up for their smallness in the large one.
V2_LITE = _experts(1408, 64, 6, num_shared=2, renormalise=False)
V2 = _experts(1536, 160, 6, num_shared=2, renormalise=False, scale=16.0, num_groups=8, top_groups=3)
V3 = _experts(2048, 256, 8, num_shared=1, score="sigmoid", scale=2.5, num_groups=8, top_groups=4)

DEEPSEEK: dict[str, Published] = {
    "deepseek-v2-lite": (
        102400,
        _deepseek(2048, 16, dense=_dense(1, 10944), mixed=_repeat(26, ffn=V2_LITE)),
    ),
    "deepseek-v2": (
        102400,
        _deepseek(5120, 128, q_rank=1536, dense=_dense(1, 12288), mixed=_repeat(59, ffn=V2)),
    ),
    # With the module for the token after the next, which shares the tables. What corrects the choice of experts is no
    # parameter: no gradient moves it.
    "deepseek-v3": (
        129280,
        _deepseek(
            7168,
            128,
            q_rank=1536,
            dense=_dense(3, 18432),
            mixed=_repeat(58, ffn=V3),
            future={"kind": "sequential", "num": 1, "weight": 0.3},
        ),
    ),
}


_ALL = {**GPT, **BERT, **XLNET, **PAIRS, **LLAMA, **PALM, **CHINCHILLA, **GEMMA, **DEEPSEEK}

PUBLISHED: dict[str, Table] = {name: model for name, (_, model) in _ALL.items()}
"""The `[model]` sections, by name."""

VOCABULARIES: dict[str, int] = {name: size for name, (size, _) in _ALL.items()}
"""How many pieces the vocabulary of each has, by name."""
