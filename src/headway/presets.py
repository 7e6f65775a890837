"""Named models: the `[model]` section of a recipe as a table. No code looks at a name; each is only a starting point.

A recipe takes one with `model = "transformer-tiny"`, and changes it with
`model = {preset = "transformer-tiny", dropout = 0.3, encoder.layer.residual = "pre"}`.

Sources: Vaswani et al. 2017, "Attention Is All You Need", Table 3 (base, big and the rows A to E), and Bahdanau et al.
2015 with the input feeding of Luong et al. 2015 (rnnsearch). Rows D of the table also change label smoothing, which is
a setting of training: `train.smoothing = {kind = "uniform", epsilon = 0.0}`, or 0.2. Shapes that others have published
(GPT-2, BERT, T5, Llama ...) are in `headway.published`, and are known here by their names as well.
"""

from copy import deepcopy
from typing import Any

from headway.published import PUBLISHED

Table = dict[str, Any]


def _transformer(
    dim: int,
    ffn_dim: int,
    num_heads: int,
    num_layers: int,
    *,
    decoder_mixer: Table | None = None,
    position: Table | None = None,
    dropout: float | None = None,
    **attention: int,
) -> Table:
    """One row of the table in full; what it does not say is the default of `headway.config`."""
    mixer = {"kind": "attention", "num_heads": num_heads, **attention}

    def stack(mixer: Table) -> Table:
        layer = {"mixer": mixer, "ffn": {"kind": "relu", "dim": ffn_dim}, "residual": "post"}
        return {"kind": "stack", "layer": layer, "layers": [{"repeat": num_layers}]}

    chosen = {"dropout": dropout, "position": position}
    return {
        "kind": "seq2seq",
        "dim": dim,
        **{key: value for key, value in chosen.items() if value is not None},
        "encoder": stack(mixer),
        "decoder": stack(decoder_mixer or mixer),
    }


PRESETS: dict[str, Table] = {
    #                                   dim  ffn  heads layers
    "transformer-base": _transformer(512, 2048, 8, 6),
    "transformer-big": _transformer(1024, 4096, 16, 6, dropout=0.3),
    "transformer-tiny": _transformer(128, 256, 4, 4),
    "transformer-tiny-linear": _transformer(128, 256, 4, 4, decoder_mixer={"kind": "linear", "num_heads": 4}),
    "transformer-tiny-window": _transformer(
        128, 256, 4, 4, decoder_mixer={"kind": "window", "num_heads": 4, "window": 8}
    ),
    "table3-a-heads-1": _transformer(512, 2048, 1, 6, key_dim=512, value_dim=512),
    "table3-a-heads-4": _transformer(512, 2048, 4, 6, key_dim=128, value_dim=128),
    "table3-a-heads-16": _transformer(512, 2048, 16, 6, key_dim=32, value_dim=32),
    "table3-a-heads-32": _transformer(512, 2048, 32, 6, key_dim=16, value_dim=16),
    "table3-b-key-16": _transformer(512, 2048, 8, 6, key_dim=16, value_dim=64),
    "table3-b-key-32": _transformer(512, 2048, 8, 6, key_dim=32, value_dim=64),
    "table3-c-layers-2": _transformer(512, 2048, 8, 2),
    "table3-c-layers-4": _transformer(512, 2048, 8, 4),
    "table3-c-layers-8": _transformer(512, 2048, 8, 8),
    "table3-c-dim-256": _transformer(256, 2048, 8, 6, key_dim=32, value_dim=32),
    "table3-c-dim-1024": _transformer(1024, 2048, 8, 6, key_dim=128, value_dim=128),
    "table3-c-ffn-1024": _transformer(512, 1024, 8, 6),
    "table3-c-ffn-4096": _transformer(512, 4096, 8, 6),
    "table3-d-dropout-0": _transformer(512, 2048, 8, 6, dropout=0.0),
    "table3-d-dropout-20": _transformer(512, 2048, 8, 6, dropout=0.2),
    "table3-e-learned": _transformer(512, 2048, 8, 6, position={"kind": "learned", "max_len": 512}),
    "rnnsearch": {
        "kind": "seq2seq",
        "dim": 256,
        "position": {"kind": "none"},
        "scale_embedding": False,
        "encoder": {
            "kind": "stack",
            "layer": {"mixer": {"kind": "gru", "bidirectional": True}, "ffn": {"kind": "none"}, "residual": "none"},
            "layers": [{"repeat": 1}],
        },
        "decoder": {"kind": "rnnsearch"},
    },
    **PUBLISHED,
}


def preset(name: str) -> Table:
    """A copy of the named `[model]` section, as a recipe would write it."""
    return deepcopy(PRESETS[name])
