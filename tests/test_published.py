"""Published shapes: their parameters to the unit, counted on the meta device, and what they cost.

Counts are those of transformers' classes (5.24, unique parameters), those that published files give of themselves
(their safetensors), or sums written out here; where a preset leaves out or adds something, the sum says so.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from headway.build import build
from headway.evaluate.cost import costs, costs_text
from headway.nn.trace import Trace
from headway.presets import PRESETS
from headway.published import PUBLISHED, VOCABULARIES
from headway.recipe import parse_model


def size(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def counted(name: str) -> int:
    """Unique parameters of a preset."""
    with torch.device("meta"):
        return size(build(parse_model(name), VOCABULARIES[name]))


def shortened(name: str, num_layers: int) -> Any:
    """A preset's first layers."""
    config = parse_model(name)
    few = config.stack.model_copy(update={"layers": config.stack.layers[:num_layers]})
    return config.model_copy(update={"stack": few})


# ---- parts that a published model has and a preset has not, or the other way round ----


def dense(inputs: int, outputs: int) -> int:
    return inputs * outputs + outputs


def words_head(dim: int, embed_dim: int, vocab_size: int) -> int:
    """BERT's: a layer, a norm, and a bias for each word; its table is the embedding's."""
    return dense(dim, embed_dim) + 2 * embed_dim + vocab_size


def of_bert(encoder_and_pooler: int, dim: int, vocab_size: int, embed_dim: int | None = None) -> int:
    """A model with the head for words instead of the pooler."""
    return encoder_and_pooler - dense(dim, dim) + words_head(dim, embed_dim or dim, vocab_size)


def of_xlnet(published: int, dim: int, num_layers: int) -> int:
    """With the bias of the head for words; in each layer without the bias and the two vectors a head that tell texts
    apart, each as wide as the stream over all heads."""
    return published + 32000 - num_layers * 3 * dim


COUNTS = {
    # transformers' classes on the meta device
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "distilgpt2": 81_912_576,
    "gpt3-small": 125_226_240,
    "gpt3-xl": 1_315_723_264,
    "gpt3-175b": 174_604_259_328,
    "bert-base-uncased": 109_514_298,  # BertForMaskedLM
    "bert-base-cased": of_bert(108_310_272, 768, 28996),
    "bert-large-uncased": of_bert(335_141_888, 1024, 30522),
    "roberta-base": 124_697_433 - 2 * 768,  # RobertaForMaskedLM; no text ever stands on its first two positions
    "xlnet-base": of_xlnet(116_718_336, 768, 12),
    "xlnet-large": of_xlnet(360_268_800, 1024, 24),
    "t5-small": 60_506_624,
    "t5-base": 222_903_552,
    "t5-large": 737_668_096,
    "t5-v1.1-small": 76_961_152,  # with an output of its own, as its file has it
    "bart-base": 139_420_416 - 2 * 2 * 768,  # two positions a side on which no text stands
    # MarianMTModel holds two tables of sinusoids, and the bias of the logits as a buffer.
    "marian-opus-mt-en-de": 74_410_496 - 2 * 512 * 512 + 58101,
    "llama-2-7b": 6_738_415_616,
    "llama-3-8b": 8_030_261_248,
    "llama-3.2-1b": 1_235_814_400,
    "tinyllama-1.1b": 1_100_048_384,
    "mixtral-8x7b": 46_702_792_704,
    "deepseek-v2-lite": 15_706_484_224,
    # as the published files say of themselves, and `test_transformers_classes_have_as_many` where it is installed
    "gpt": 116_534_784,
    "albert-base-v2": of_bert(11_683_584, 768, 30000, 128),
    "albert-large-v2": of_bert(17_683_968, 1024, 30000, 128),
    "albert-xlarge-v2": of_bert(58_724_864, 2048, 30000, 128),
    "albert-xxlarge-v2": of_bert(222_595_584, 4096, 30000, 128),
    "mistral-7b": 7_241_732_096,
    "gemma-2b": 2_506_172_416,
    "gemma-7b": 8_537_680_896,
    "gemma-2-2b": 2_614_341_888,
}


@pytest.mark.parametrize("name", COUNTS)
def test_a_preset_has_the_published_number_of_parameters(name: str) -> None:
    assert counted(name) == COUNTS[name]


@pytest.mark.parametrize(
    ("name", "published", "dim"),
    [
        ("bert-base-uncased", 109_482_240, 768),
        ("bert-base-cased", 108_310_272, 768),
        ("bert-large-uncased", 335_141_888, 1024),
        ("albert-base-v2", 11_683_584, 768),
    ],
)
def test_with_a_pooler_instead_of_words_bert_has_what_its_class_without_a_head_has(
    name: str, published: int, dim: int
) -> None:
    with torch.device("meta"):
        bare = build(parse_model({"preset": name, "head": "none"}), VOCABULARIES[name])
        pooled = build(parse_model({"preset": name, "head": {"kind": "classes", "num": 7}}), VOCABULARIES[name])
    assert size(bare) + dense(dim, dim) == published
    assert size(pooled) - dense(dim, 7) == published


# ---- DeepSeek: layer by layer, since all are built and have thousands of experts ----


def latent(dim: int, num_heads: int, q_rank: int, kv_rank: int = 512, key: int = 128, rope: int = 64) -> int:
    """Multi-head latent attention, with its two inner norms; values are as wide as keys that do not turn."""
    queries = dim * q_rank + q_rank + q_rank * num_heads * (key + rope)
    return queries + dim * (kv_rank + rope) + kv_rank + kv_rank * num_heads * 2 * key + num_heads * key * dim


def mixture(dim: int, width: int, num: int, num_shared: int) -> int:
    return (num + num_shared) * 3 * dim * width + num * dim


def deepseek_layer(dim: int, ffn: int, q_rank: int = 1536) -> int:
    return latent(dim, 128, q_rank) + ffn + 2 * dim


V2_LAYER = deepseek_layer(5120, mixture(5120, 1536, 160, 2))
V3_LAYER = deepseek_layer(7168, mixture(7168, 2048, 256, 1))
V3_MODULE = V3_LAYER + 2 * 7168 * 7168 + 3 * 7168  # a layer, what joins two vectors, and three norms

DEEPSEEK = {
    # the published number, a layer of experts, how many of them, and what is beyond the published number
    "deepseek-v2": (235_741_434_880, V2_LAYER, 59, 0),
    "deepseek-v3": (671_026_404_352, V3_LAYER, 58, V3_MODULE),
}


@pytest.mark.parametrize("name", DEEPSEEK)
def test_deepseek_has_the_published_number_with_one_layer_of_experts_for_all(name: str) -> None:
    published, layer, num, module = DEEPSEEK[name]
    kinds = [one.ffn.kind for one in parse_model(name).stack.layers]
    assert kinds.count("experts") == num
    with torch.device("meta"):
        model = build(shortened(name, kinds.index("experts") + 1), VOCABULARIES[name])
    assert size(model.stack.layers[-1]) == layer
    assert size(model) + (num - 1) * layer == published + module


@pytest.mark.slow
@pytest.mark.parametrize("name", DEEPSEEK)
def test_deepseek_has_the_published_number_in_full(name: str) -> None:
    published, _, _, module = DEEPSEEK[name]
    assert counted(name) == published + module


# ---- PaLM and Chinchilla, of which only papers are public ----


@pytest.mark.parametrize(
    ("name", "num_layers", "dim", "num_heads", "billions"),
    [("palm-8b", 32, 4096, 16, 8.63), ("palm-62b", 64, 8192, 32, 62.50), ("palm-540b", 118, 18432, 48, 540.35)],
)
def test_palm_has_the_parameters_of_its_paper(
    name: str, num_layers: int, dim: int, num_heads: int, billions: float
) -> None:
    """Chowdhery et al. 2022, table 1 (which leaves norms out) and section 2: queries of all heads, one key and one
    value of 256; SwiGLU of 4 dim in three matrices; one norm for both; no biases; one table for both ends, of 256,000
    pieces."""
    heads = num_heads * 256
    layer = dim * heads + 2 * dim * 256 + heads * dim + 3 * dim * 4 * dim
    matrices, norms = num_layers * layer + 256_000 * dim, (num_layers + 1) * dim
    assert counted(name) == matrices + norms
    assert round(matrices / 1e9, 2) == billions


def test_chinchilla_has_the_parameters_of_its_paper() -> None:
    """Hoffmann et al. 2022, table 4, and Rae et al. 2021, section 2.1: GPT-2's block with RMSNorm and the relative
    positions of Dai et al. 2019, which are one more matrix and two vectors a head in each layer. Only with that matrix
    are the layers of 8192 seventy billion, and Gopher's of 16,384 its 280."""

    def total(dim: int, num_layers: int = 80, vocab_size: int = 32_000) -> int:
        attention, positions = 4 * dense(dim, dim), dim * dim + 2 * dim
        layer = attention + positions + dense(dim, 4 * dim) + dense(4 * dim, dim) + 2 * dim
        return num_layers * layer + dim + vocab_size * dim

    assert counted("chinchilla-70b") == total(8192)
    assert (round(total(8192) / 1e9), round(total(16_384) / 1e9)) == (70, 280)


# ---- transformers ----

ALBERT = {"embedding_size": 128, "vocab_size": 30000, "max_position_embeddings": 512, "type_vocab_size": 2}
CLASSES: dict[str, tuple[str, dict[str, Any], int]] = {
    # the class before its Config, its configuration, and what a preset has beyond it
    "gpt": ("OpenAIGPTLMHeadModel", {"vocab_size": 40478, "n_positions": 512, "n_embd": 768, "n_layer": 12}, 0),
    "albert-base-v2": (
        "AlbertModel",
        ALBERT | {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072},
        words_head(768, 128, 30000) - dense(768, 768),
    ),
    "albert-large-v2": (
        "AlbertModel",
        ALBERT | {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096},
        words_head(1024, 128, 30000) - dense(1024, 1024),
    ),
    "albert-xlarge-v2": (
        "AlbertModel",
        ALBERT | {"hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 8192},
        words_head(2048, 128, 30000) - dense(2048, 2048),
    ),
    "albert-xxlarge-v2": (
        "AlbertModel",
        ALBERT | {"hidden_size": 4096, "num_hidden_layers": 12, "num_attention_heads": 64, "intermediate_size": 16384},
        words_head(4096, 128, 30000) - dense(4096, 4096),
    ),
    "mistral-7b": (
        "MistralForCausalLM",
        {
            "vocab_size": 32000,
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "tie_word_embeddings": False,
        },
        0,
    ),
    "gemma-2b": (
        "GemmaForCausalLM",
        {
            "vocab_size": 256000,
            "hidden_size": 2048,
            "intermediate_size": 16384,
            "num_hidden_layers": 18,
            "num_attention_heads": 8,
            "num_key_value_heads": 1,
            "head_dim": 256,
        },
        0,
    ),
    "gemma-7b": (
        "GemmaForCausalLM",
        {
            "vocab_size": 256000,
            "hidden_size": 3072,
            "intermediate_size": 24576,
            "num_hidden_layers": 28,
            "num_attention_heads": 16,
            "num_key_value_heads": 16,
            "head_dim": 256,
        },
        0,
    ),
    "gemma-2-2b": (
        "Gemma2ForCausalLM",
        {
            "vocab_size": 256000,
            "hidden_size": 2304,
            "intermediate_size": 9216,
            "num_hidden_layers": 26,
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "head_dim": 256,
        },
        0,
    ),
    "deepseek-v2": (
        "DeepseekV2ForCausalLM",
        {
            "vocab_size": 102400,
            "hidden_size": 5120,
            "intermediate_size": 12288,
            "moe_intermediate_size": 1536,
            "num_hidden_layers": 60,
            "num_attention_heads": 128,
            "first_k_dense_replace": 1,
            "kv_lora_rank": 512,
            "q_lora_rank": 1536,
            "n_routed_experts": 160,
            "n_shared_experts": 2,
            "num_experts_per_tok": 6,
            "n_group": 8,
            "topk_group": 3,
            "topk_method": "group_limited_greedy",
        },
        0,
    ),
    "deepseek-v3": (
        "DeepseekV3ForCausalLM",
        {
            "vocab_size": 129280,
            "hidden_size": 7168,
            "intermediate_size": 18432,
            "moe_intermediate_size": 2048,
            "num_hidden_layers": 61,
            "num_attention_heads": 128,
            "first_k_dense_replace": 3,
            "kv_lora_rank": 512,
            "q_lora_rank": 1536,
            "n_routed_experts": 256,
            "n_shared_experts": 1,
        },
        V3_MODULE,
    ),
}


@pytest.mark.parametrize("name", CLASSES)
def test_transformers_classes_have_as_many(name: str) -> None:
    transformers = pytest.importorskip("transformers", reason="the extra `peers` is not installed")
    class_name, told, beyond = CLASSES[name]
    stem = next(class_name.removesuffix(end) for end in ("LMHeadModel", "ForCausalLM", "Model") if end in class_name)
    with torch.device("meta"):
        model = getattr(transformers, class_name)(getattr(transformers, f"{stem}Config")(**told))
    expected = DEEPSEEK[name][0] + DEEPSEEK[name][3] if name in DEEPSEEK else COUNTS[name]
    assert size(model) + beyond == expected


# ---- what they compute ----


def test_every_published_shape_is_counted_here_and_is_a_preset() -> None:
    papers = {"palm-8b", "palm-62b", "palm-540b", "chinchilla-70b"}
    assert set(PUBLISHED) == {*COUNTS, *DEEPSEEK, *papers} == set(VOCABULARIES)
    assert all(PRESETS[name] is model for name, model in PUBLISHED.items())


def test_the_page_about_them_tells_their_vocabularies_and_parameters() -> None:
    page = (Path(__file__).parents[1] / "docs" / "guide" / "published-shapes.md").read_text(encoding="utf-8")
    cells = [[cell.strip() for cell in line.split("|")] for line in page.splitlines() if line.startswith("| `")]
    told = {name.strip("`"): (int(size.replace(",", "")), total) for _, name, _, size, total, _ in cells}
    assert {name: size for name, (size, _) in told.items()} == VOCABULARIES
    known = COUNTS | {name: published + module for name, (published, _, _, module) in DEEPSEEK.items()}
    assert {name: told[name][1] for name in known} == {name: f"{total:,}" for name, total in known.items()}


EPS = {
    1e-5: ["gpt", "gpt2", "gpt3", "distilgpt2", "roberta", "bart", "llama", "tinyllama", "mistral", "mixtral"],
    1e-12: ["bert", "albert", "xlnet"],
    1e-6: ["t5", "marian", "gemma", "deepseek"],
}


@pytest.mark.parametrize(("eps", "start"), [(eps, start) for eps, starts in EPS.items() for start in starts])
def test_norms_have_the_eps_of_their_code_or_file(eps: float, start: str) -> None:
    """transformers' defaults and published configurations; of Marian its own layerNorm (src/models/transformer.h)."""
    names = [name for name in PUBLISHED if name == start or name.startswith(f"{start}-")]
    assert names
    for name in names:
        model = parse_model(name)
        stacks = [stack for side in ("encoder", "decoder", "stack") if (stack := getattr(model, side, None))]
        norms = [layer.norm for stack in stacks for layer in stack.layers]
        norms += [model.embed_norm] if model.embed_norm else []
        assert {norm.eps for norm in norms} == {eps}


def test_logits_are_scaled_where_the_papers_scale_them() -> None:
    """T5 scales what its shared table is held against and no logits of attention; PaLM the former alone."""
    for name in ("t5-small", "t5-base", "t5-large", "palm-8b", "palm-62b", "palm-540b"):
        model = parse_model(name)
        assert model.output.scale == pytest.approx(model.dim**-0.5, rel=1e-15)
    assert parse_model("t5-v1.1-small").output.scale is None
    assert {layer.mixer.scale for layer in parse_model("t5-v1.1-small").decoder.layers} == {1.0}
    assert {layer.mixer.scale for layer in parse_model("palm-8b").stack.layers} == {None}


def test_only_shapes_whose_code_scales_embeddings_do() -> None:
    scaled = {name for name in PUBLISHED if parse_model(name).scale_embedding}
    assert scaled == {"marian-opus-mt-en-de", "gemma-2b", "gemma-7b", "gemma-2-2b"}


# ---- what they cost ----

ATTENTION = {"kind": "attention", "num_heads": 2}
TINY: dict[str, dict[str, Any]] = {
    "pair": {"preset": "transformer-tiny", "dim": 16},
    "pair-window": {"preset": "transformer-tiny-window", "dim": 16},
    "pair-linear": {"preset": "transformer-tiny-linear", "dim": 16},
    "rnnsearch": {"preset": "rnnsearch", "dim": 16},
    "t5": {"preset": "t5-small", "dim": 16},
    "gpt2": {"preset": "gpt2", "dim": 24},
    "gemma-2": {"preset": "gemma-2-2b", "dim": 24},
    "llama": {"preset": "llama-3.2-1b", "dim": 64},
    "palm": {"preset": "palm-8b", "dim": 64},
    "chinchilla": {"preset": "chinchilla-70b", "dim": 64},
    "mixtral": {
        "preset": "mixtral-8x7b",
        "dim": 64,
        "stack": {"layer": {"ffn": {"expert": {"kind": "swiglu", "dim": 6}, "num": 5, "top_k": 3}}},
    },
    "deepseek": {
        "preset": "deepseek-v2-lite",
        "dim": 64,
        "stack": {
            "layer": {"mixer": {"num_heads": 4, "kv_rank": 6, "head_dim": 5, "rope_dim": 4, "value_dim": 3}},
            "layers": [
                {"ffn": {"kind": "swiglu", "dim": 10}},
                {"ffn": {"kind": "experts", "expert": {"kind": "swiglu", "dim": 6}, "num": 8, "num_shared": 1}},
            ],
        },
    },
    "bert": {"preset": "bert-base-uncased", "dim": 24},
    "albert": {"preset": "albert-base-v2", "dim": 24},
    "xlnet": {"preset": "xlnet-base", "dim": 24},
}


def tiny(name: str) -> Any:
    """Two layers a side, narrow where that is said nowhere."""
    table = dict(TINY[name])
    sides = [side for side in ("encoder", "decoder", "stack") if "layers" in PRESETS[table["preset"]].get(side, {})]
    for side in sides:
        known = PRESETS[table["preset"]][side]
        ffn = {"layer": {"ffn": {"dim": 10}}} if "dim" in known["layer"].get("ffn", {}) else {}
        layers = [{key: value for key, value in entry.items() if key != "repeat"} for entry in known["layers"]]
        table[side] = {"layers": (2 * layers)[:2], **ffn, **table.get(side, {})}
    return parse_model(table)


@pytest.mark.parametrize("name", TINY)
def test_costs_of_shapes_are_those_of_real_weights(name: str) -> None:
    """FLOPs of a forward of real numbers on the CPU, and what a state of them grows by."""
    config = tiny(name)
    torch.manual_seed(5)
    model, tokens, trace = build(config, 50).eval(), torch.full((1, 32), 4), Trace()
    pair = config.kind == "seq2seq"
    with torch.no_grad():
        with FlopCounterMode(display=False) as counter:
            model(tokens, tokens, trace=trace) if pair else model(tokens, trace=trace)
        shown = costs(config, 50)
        assert shown["parameters"] == size(model)
        assert shown["flops_per_target_token"] == counter.get_total_flops() // 32
        if config.kind == "encoder":
            assert "cache_bytes_per_target_token" not in shown
            return
        state, sizes = model.start(tokens.tolist() if pair else [[]]), []
        for _ in range(2):
            model.step(state, tokens)
            sizes.append(state.bytes())
    assert shown["cache_bytes_per_target_token"] == (sizes[1] - sizes[0]) // 32


def test_flops_of_gpt2_are_two_for_each_weight_of_a_matrix_and_four_for_each_token_looked_at() -> None:
    matrices = 12 * (4 * 768 * 768 + 2 * 768 * 3072) + 50257 * 768
    looked = 12 * 4 * 32 * 768
    assert costs(parse_model("gpt2"), 50257)["flops_per_target_token"] == 2 * matrices + looked


def test_flops_of_a_mixture_are_those_of_the_experts_that_a_token_goes_to() -> None:
    """Mixtral, two layers of it: 2 of 8, and the router; keys and values of 8 heads of 128 for 32 of queries."""
    attention = 2 * 4096 * 4096 + 2 * 4096 * 1024
    layer = attention + 4096 * 8 + 2 * 3 * 4096 * 14336
    expected = 2 * (2 * layer + 32000 * 4096) + 2 * 4 * 32 * 4096
    assert costs(shortened("mixtral-8x7b", 2), 32000)["flops_per_target_token"] == expected


@pytest.mark.parametrize(
    ("name", "numbers"),
    [("llama-3-8b", 2 * 8 * 128), ("llama-2-7b", 2 * 32 * 128), ("deepseek-v2-lite", 512 + 64), ("mistral-7b", 0)],
)
def test_the_cache_holds_keys_and_values_of_few_heads_or_one_latent_vector(name: str, numbers: int) -> None:
    """Of three layers: numbers of 4 bytes, and the token's position; a window never grows."""
    shown = costs(shortened(name, 3), VOCABULARIES[name])
    assert shown["cache_bytes_per_target_token"] == (3 * (4 * numbers + 8) if numbers else 0)


def test_costs_are_told_of_an_encoder_without_a_cache() -> None:
    lines = costs_text(costs(tiny("bert"), 50)).splitlines()
    assert [line[:24].strip() for line in lines[:-1]] == [
        "parameters",
        "embed",
        "stack",
        "head",
        "vocabulary",
        "FLOPs per token",
    ]
