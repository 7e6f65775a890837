"""Presets of published shapes, narrow, against the classes of transformers with the same weights: logits in float64, of
padded texts. Who reads what weight is written down here, layer by layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from headway.build import build
from headway.recipe import parse_model

transformers = pytest.importorskip("transformers", reason="transformers is not installed: pip install -e .[test]")

V, D, H, F, N = 37, 24, 4, 40, 2
TOKENS = torch.tensor([[4, 7, 9, 11, 4, 15, 2], [5, 6, 8, 21, 0, 0, 0]])
REAL = TOKENS != 0
MASK = REAL.long()


def make(preset: str, **more: Any) -> nn.Module:
    """A preset with two narrow layers, and weights that are all drawn."""
    layer = {"mixer": {"num_heads": H}, "ffn": {"dim": F}}
    layers = [{}] if preset.startswith("albert") else [{}] * N
    stack = {"layers": layers, "layer": layer, **({"passes": N} if preset.startswith("albert") else {})}
    told = {"preset": preset, "dim": D, "dropout": 0.0, "stack": stack, **more}
    torch.manual_seed(5)
    model = build(parse_model(told), V).double().eval()
    for parameter in model.parameters():
        parameter.data += 0.2 * torch.randn_like(parameter)
    return model


def give(
    theirs: nn.Module, ours: nn.Module, names: dict[str, str | Callable[[dict[str, Tensor]], Tensor]]
) -> nn.Module:
    """Their weights from ours; every one of theirs has to be named, but those that are tied to another."""
    weights, known = ours.state_dict(), theirs.double().eval().state_dict()
    made = {name: weights[of] if isinstance(of, str) else of(weights) for name, of in names.items()}
    pointers = {known[name].data_ptr() for name in made}
    left = [n for n, x in known.items() if n not in made and x.data_ptr() not in pointers and x.is_floating_point()]
    assert not left, left
    assert {name: x.shape for name, x in made.items()} == {name: known[name].shape for name in made}
    theirs.load_state_dict(made, strict=False)
    return theirs


def close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours[REAL] if ours.dim() > 2 else ours, theirs[REAL] if theirs.dim() > 2 else theirs)


def both(ours: str, theirs: str, kinds: str = "wb") -> dict[str, Any]:
    return {f"{theirs}.{kind}": f"{ours}.{kind}" for kind in ({"w": "weight", "b": "bias"}[one] for one in kinds)}


def test_gpt2() -> None:
    ours = make("gpt2", position={"kind": "learned", "max_len": 16})
    config = transformers.GPT2Config(
        vocab_size=V,
        n_positions=16,
        n_embd=D,
        n_layer=N,
        n_head=H,
        n_inner=F,
        attn_pdrop=0,
        embd_pdrop=0,
        resid_pdrop=0,
    )
    names: dict[str, Any] = {
        "transformer.wte.weight": "embed.tokens.weight",
        "transformer.wpe.weight": "embed.position.table.weight",
        **both("stack.norm", "transformer.ln_f"),
    }

    def turned(name: str) -> Callable[[dict[str, Tensor]], Tensor]:
        return lambda w: w[name].T

    def three(layer: str, kind: str) -> Callable[[dict[str, Tensor]], Tensor]:
        return lambda w: (
            torch.cat([w[f"{layer}.mixer.{one}.{kind}"] for one in "qkv"]).T
            if kind == "weight"
            else torch.cat([w[f"{layer}.mixer.{one}.bias"] for one in "qkv"])
        )

    for i in range(N):
        mine, layer = f"stack.layers.{i}", f"transformer.h.{i}"
        names |= both(f"{mine}.join_mixer.norm", f"{layer}.ln_1") | both(f"{mine}.join_ffn.norm", f"{layer}.ln_2")
        names |= {f"{layer}.attn.c_attn.{kind}": three(mine, kind) for kind in ("weight", "bias")}
        for one, of in (("attn.c_proj", "mixer.out"), ("mlp.c_fc", "ffn.up"), ("mlp.c_proj", "ffn.down")):
            names |= {
                f"{layer}.{one}.weight": turned(f"{mine}.{of}.weight"),
                f"{layer}.{one}.bias": f"{mine}.{of}.bias",
            }
    theirs = give(transformers.GPT2LMHeadModel(config), ours, names)
    close(ours(TOKENS), theirs(TOKENS, attention_mask=MASK).logits)


@pytest.mark.parametrize(("preset", "kv"), [("llama-3-8b", 2), ("llama-2-7b", 4), ("tinyllama-1.1b", 1)])
def test_llama(preset: str, kv: int) -> None:
    layer = {"mixer": {"num_heads": H, "num_kv_heads": kv}, "ffn": {"dim": F}}
    ours = make(preset, stack={"layers": [{}] * N, "layer": layer})
    mixer = parse_model(preset).stack.layers[0].mixer
    config = transformers.LlamaConfig(
        vocab_size=V,
        hidden_size=D,
        intermediate_size=F,
        num_hidden_layers=N,
        num_attention_heads=H,
        num_key_value_heads=kv,
        rms_norm_eps=parse_model(preset).stack.layers[0].norm.eps,
        rope_parameters={"rope_type": "default", "rope_theta": mixer.position.base},
        tie_word_embeddings=False,
    )
    names = {"model.embed_tokens.weight": "embed.tokens.weight", "lm_head.weight": "unembed.weight"}
    names |= both("stack.norm", "model.norm", "w")
    for i in range(N):
        mine, theirs = f"stack.layers.{i}", f"model.layers.{i}"
        for one in "qkv":
            names |= both(f"{mine}.mixer.{one}", f"{theirs}.self_attn.{one}_proj", "w")
        names |= both(f"{mine}.mixer.out", f"{theirs}.self_attn.o_proj", "w")
        for one in ("gate", "up", "down"):
            names |= both(f"{mine}.ffn.{one}", f"{theirs}.mlp.{one}_proj", "w")
        names |= both(f"{mine}.join_mixer.norm", f"{theirs}.input_layernorm", "w")
        names |= both(f"{mine}.join_ffn.norm", f"{theirs}.post_attention_layernorm", "w")
    model = give(transformers.LlamaForCausalLM(config), ours, names)
    # They take norms and angles in float32, whatever the weights are.
    torch.testing.assert_close(ours(TOKENS)[REAL], model(TOKENS, attention_mask=MASK).logits[REAL], rtol=0, atol=1e-5)


# ---- encoders ----

BERT: dict[str, Any] = {
    "vocab_size": V,
    "hidden_size": D,
    "num_hidden_layers": N,
    "num_attention_heads": H,
    "intermediate_size": F,
    "max_position_embeddings": 16,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "pad_token_id": 0,
}
PLACES = {"position": {"kind": "learned", "max_len": 16}}
SEGMENTS = torch.tensor([[0, 0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 0, 0, 0]])


def bert_names(prefix: str = "bert.") -> dict[str, Any]:
    names: dict[str, Any] = {
        f"{prefix}embeddings.word_embeddings.weight": "embed.tokens.weight",
        f"{prefix}embeddings.position_embeddings.weight": "embed.position.table.weight",
        f"{prefix}embeddings.token_type_embeddings.weight": "embed.segments.weight",
        **both("embed.norm", f"{prefix}embeddings.LayerNorm"),
    }
    for i in range(N):
        mine, layer = f"stack.layers.{i}", f"{prefix}encoder.layer.{i}"
        for one, of in (("query", "q"), ("key", "k"), ("value", "v")):
            names |= both(f"{mine}.mixer.{of}", f"{layer}.attention.self.{one}")
        names |= both(f"{mine}.mixer.out", f"{layer}.attention.output.dense")
        names |= both(f"{mine}.join_mixer.norm", f"{layer}.attention.output.LayerNorm")
        names |= both(f"{mine}.ffn.up", f"{layer}.intermediate.dense") | both(
            f"{mine}.ffn.down", f"{layer}.output.dense"
        )
        names |= both(f"{mine}.join_ffn.norm", f"{layer}.output.LayerNorm")
    return names


def words_names(prefix: str = "cls.predictions.") -> dict[str, Any]:
    names = both("head.dense", f"{prefix}transform.dense") | both("head.norm", f"{prefix}transform.LayerNorm")
    return names | {f"{prefix}bias": "head.unembed.bias"}


def said(ours: nn.Module) -> Tensor:
    return ours(TOKENS, segments=SEGMENTS)


ASKED: dict[str, Any] = {"attention_mask": MASK, "token_type_ids": SEGMENTS}


def test_bert_for_words() -> None:
    ours = make("bert-base-uncased", **PLACES)
    theirs = give(transformers.BertForMaskedLM(transformers.BertConfig(**BERT)), ours, bert_names() | words_names())
    close(said(ours), theirs(TOKENS, **ASKED).logits)


def test_bert_for_words_and_what_follows() -> None:
    """Both losses of its pre-training: class 0 says that the second text follows."""
    head = {"kind": "words", "transform": "gelu", "bias": True, "tie": True, "next": True}
    ours = make("bert-base-uncased", **PLACES, head=head)
    names = bert_names() | words_names() | both("head.next.pool.dense", "bert.pooler.dense")
    names |= both("head.next.out", "cls.seq_relationship")
    theirs = give(transformers.BertForPreTraining(transformers.BertConfig(**BERT)), ours, names)
    found = theirs(TOKENS, **ASKED)
    close(said(ours), found.prediction_logits)
    vectors = ours.vectors(TOKENS, segments=SEGMENTS)
    positions = torch.arange(TOKENS.shape[1]).where(REAL, -1)
    torch.testing.assert_close(ours.head.next(vectors, positions), found.seq_relationship_logits)


@pytest.mark.parametrize(
    ("head", "cls", "names"),
    [
        (
            {"kind": "classes", "num": 3},
            "BertForSequenceClassification",
            both("head.pool.dense", "bert.pooler.dense") | both("head.out", "classifier"),
        ),
        ({"kind": "tags", "num": 3}, "BertForTokenClassification", both("head.out", "classifier")),
        ({"kind": "span"}, "BertForQuestionAnswering", both("head.out", "qa_outputs")),
    ],
)
def test_bert_with_other_heads(head: dict[str, Any], cls: str, names: dict[str, Any]) -> None:
    ours, num = make("bert-base-uncased", **PLACES, head=head), head.get("num", 2)
    theirs = give(
        getattr(transformers, cls)(transformers.BertConfig(**BERT, num_labels=num)), ours, bert_names() | names
    )
    found = theirs(TOKENS, **ASKED)
    wanted = found.logits if "logits" in found else torch.stack([found.start_logits, found.end_logits], -1)
    close(said(ours), wanted)


def test_albert_shares_a_layer_and_has_a_narrow_table() -> None:
    ours = make("albert-base-v2", embed_dim=9, **PLACES)
    config = transformers.AlbertConfig(**BERT, embedding_size=9, hidden_act="gelu_new", num_hidden_groups=1)
    layer = "albert.encoder.albert_layer_groups.0.albert_layers.0"
    names: dict[str, Any] = {
        "albert.embeddings.word_embeddings.weight": "embed.tokens.weight",
        "albert.embeddings.position_embeddings.weight": "embed.position.table.weight",
        "albert.embeddings.token_type_embeddings.weight": "embed.segments.weight",
        **both("embed.norm", "albert.embeddings.LayerNorm"),
        **both("embed.project", "albert.encoder.embedding_hidden_mapping_in"),
        **both("stack.layers.0.mixer.out", f"{layer}.attention.dense"),
        **both("stack.layers.0.join_mixer.norm", f"{layer}.attention.LayerNorm"),
        **both("stack.layers.0.ffn.up", f"{layer}.ffn"),
        **both("stack.layers.0.ffn.down", f"{layer}.ffn_output"),
        **both("stack.layers.0.join_ffn.norm", f"{layer}.full_layer_layer_norm"),
        **both("head.dense", "predictions.dense"),
        **both("head.norm", "predictions.LayerNorm"),
        "predictions.bias": "head.unembed.bias",
    }
    for one, of in (("query", "q"), ("key", "k"), ("value", "v")):
        names |= both(f"stack.layers.0.mixer.{of}", f"{layer}.attention.{one}")
    theirs = give(transformers.AlbertForMaskedLM(config), ours, names)
    close(said(ours), theirs(TOKENS, **ASKED).logits)


def test_xlnet_guesses_in_an_order_of_its_own() -> None:
    """The query stream: perm_mask says which tokens a guess does not see; without it, the stream that reads."""
    ours = make("xlnet-base")
    config = transformers.XLNetConfig(
        vocab_size=V, d_model=D, n_layer=N, n_head=H, d_inner=F, ff_activation="gelu", dropout=0.0, attn_type="bi"
    )
    names: dict[str, Any] = {
        "transformer.mask_emb": lambda w: w["query"][None, None],
        "transformer.word_embedding.weight": "embed.tokens.weight",
        "lm_loss.bias": "head.unembed.bias",
    }

    def heads(name: str) -> Callable[[dict[str, Tensor]], Tensor]:
        return lambda w: w[name].T.unflatten(1, (H, -1))

    for i in range(N):
        mine, layer = f"stack.layers.{i}", f"transformer.layer.{i}"
        names |= {f"{layer}.rel_attn.{one}": heads(f"{mine}.mixer.{one}.weight") for one in "qkv"}
        names[f"{layer}.rel_attn.o"] = lambda w, mine=mine: w[f"{mine}.mixer.out.weight"].unflatten(1, (H, -1))
        names[f"{layer}.rel_attn.r"] = heads(f"{mine}.mixer.relation.r.weight")
        names[f"{layer}.rel_attn.r_w_bias"] = f"{mine}.mixer.relation.u"
        names[f"{layer}.rel_attn.r_r_bias"] = f"{mine}.mixer.relation.v"
        names[f"{layer}.rel_attn.r_s_bias"] = lambda w: torch.zeros(H, D // H)
        names[f"{layer}.rel_attn.seg_embed"] = lambda w: torch.zeros(2, H, D // H)
        names |= both(f"{mine}.join_mixer.norm", f"{layer}.rel_attn.layer_norm")
        names |= both(f"{mine}.ffn.up", f"{layer}.ff.layer_1") | both(f"{mine}.ffn.down", f"{layer}.ff.layer_2")
        names |= both(f"{mine}.join_ffn.norm", f"{layer}.ff.layer_norm")
    theirs = give(transformers.XLNetLMHeadModel(config), ours, names).float()  # its waves are float32
    ours, tokens = ours.float(), TOKENS[:1]
    rank = torch.tensor([[3, 0, 5, 1, 6, 2, 4]])
    hidden = (rank[:, None] >= rank[:, :, None]).float()  # [b, i, j]: token i does not see j
    found = theirs(tokens, perm_mask=hidden, target_mapping=torch.eye(7)[None], use_mems=False).logits
    later = rank > 0  # the first one in the order sees nothing: theirs then looks at all alike, ours reads zeros
    torch.testing.assert_close(ours(tokens, rank=rank)[later], found[later], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(ours(tokens), theirs(tokens, use_mems=False).logits, rtol=1e-4, atol=1e-4)
