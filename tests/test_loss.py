"""The loss against the values of the paper's formulae, torch's cross-entropy and finite differences."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from headway.config import OthersSmoothingConfig, UniformSmoothingConfig
from headway.nn.embed import Unembed
from headway.train import loss as module
from headway.train.loss import TokenLoss, unembed_loss
from headway.train.loss import token_loss as projected_loss

SMOOTHINGS = [
    UniformSmoothingConfig(epsilon=0.1),
    OthersSmoothingConfig(epsilon=0.3),
    UniformSmoothingConfig(epsilon=0),
]


def written_out(logits: Tensor, target: Tensor, smoothing: UniformSmoothingConfig | OthersSmoothingConfig) -> Tensor:
    """-sum_v q(v) log p(v), with q as a table: the twin, row by row."""
    total = torch.zeros((), dtype=logits.dtype)
    for x, t in zip(logits.flatten(0, -2), target.flatten().tolist(), strict=True):
        size = len(x)
        if smoothing.kind == "uniform":
            q = torch.full_like(x, smoothing.epsilon / size)
            q[t] += 1 - smoothing.epsilon
        else:
            q = torch.full_like(x, smoothing.epsilon / (size - 1))
            q[t] = 1 - smoothing.epsilon
        if t != 0:
            total = total - (q * (x - x.exp().sum().log())).sum()
    return total


def token_loss(logits: Tensor, target: Tensor, smoothing: UniformSmoothingConfig | OthersSmoothingConfig) -> TokenLoss:
    """Of logits: those of rows of the unit matrix, unembedded by the transposed logits, are the logits themselves."""
    rows = logits.flatten(0, -2)
    unit = torch.eye(len(rows), dtype=logits.dtype).view(*logits.shape[:-1], len(rows))
    return projected_loss(unit, rows.T, target, smoothing)


def example(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    logits = (3 * torch.randn(3, 5, 11, dtype=dtype)).requires_grad_()
    target = torch.tensor([[4, 2, 0, 0, 0], [10, 1, 7, 9, 2], [3, 3, 2, 0, 0]])
    return logits, target


@pytest.mark.parametrize(("kind", "value"), [(UniformSmoothingConfig, 0.651914), (OthersSmoothingConfig, 0.701914)])
def test_smoothing_by_name_gives_the_published_values(kind: type, value: float) -> None:
    got = token_loss(torch.tensor([[1.0, 2, 3, 4, 5]]), torch.tensor([4]), kind(epsilon=0.1))
    assert got.loss.item() == pytest.approx(value, abs=1e-6)
    assert got.nll.item() == pytest.approx(0.451914, abs=1e-6)
    assert got.tokens == 1


@pytest.mark.parametrize("smoothing", SMOOTHINGS, ids=str)
def test_loss_and_gradient_equal_the_written_out_sum(smoothing: UniformSmoothingConfig | OthersSmoothingConfig) -> None:
    logits, target = example()
    got = token_loss(logits, target, smoothing)
    (gradient,) = torch.autograd.grad(3 * got.loss, logits)
    wanted = written_out(logits, target, smoothing)
    (wanted_gradient,) = torch.autograd.grad(3 * wanted, logits)
    assert got.tokens == 10
    torch.testing.assert_close(got.loss, wanted, rtol=1e-12, atol=0)
    torch.testing.assert_close(gradient, wanted_gradient, rtol=1e-10, atol=1e-14)
    assert torch.autograd.gradcheck(lambda x: token_loss(x, target, smoothing).loss, logits)


def test_uniform_smoothing_and_its_plain_nll_equal_torch() -> None:
    logits, target = example()
    got = token_loss(logits, target, UniformSmoothingConfig(epsilon=0.2))
    rows, ids = logits.flatten(0, 1), target.flatten()
    for value, epsilon in ((got.loss, 0.2), (got.nll, 0.0)):
        wanted = F.cross_entropy(rows, ids, ignore_index=0, reduction="sum", label_smoothing=epsilon)
        torch.testing.assert_close(value, wanted, rtol=1e-12, atol=0)
    assert not got.nll.requires_grad


def test_padding_counts_nowhere_whatever_its_logits_are() -> None:
    logits, target = example()
    short = token_loss(logits[:1, :2], target[:1, :2], SMOOTHINGS[0])
    changed = logits.detach().clone()
    changed[0, 2:] = 1e30
    padded = token_loss(changed.requires_grad_(), target, SMOOTHINGS[0])
    (gradient,) = torch.autograd.grad(padded.loss, changed)
    assert torch.equal(gradient[0, 2:], torch.zeros(3, 11, dtype=torch.float64))
    assert token_loss(changed[:1], target[:1], SMOOTHINGS[0])[:2] == short[:2]
    nothing = token_loss(logits, torch.zeros_like(target), SMOOTHINGS[0])
    assert nothing == (0, 0, 0)
    assert not torch.autograd.grad(nothing.loss, logits)[0].any()


def test_logits_far_apart_stay_finite() -> None:
    logits = torch.tensor([[1e4, -1e4, 0.0], [-1e4, 1e4, 1e4]], requires_grad=True)
    got = token_loss(logits, torch.tensor([1, 2]), UniformSmoothingConfig(epsilon=0.0))
    got.loss.backward()
    assert got.loss.item() == pytest.approx(2e4 + math.log(2))
    assert logits.grad is not None
    torch.testing.assert_close(logits.grad, torch.tensor([[1.0, -1, 0], [0, 0.5, -0.5]]))


@pytest.mark.parametrize("offset", [0, 500])
def test_half_precision_logits_are_summed_in_float32(offset: float) -> None:
    """Logits that all lie far from zero have a large sum, of which the loss keeps nothing."""
    torch.manual_seed(2)
    logits = (offset + 9 * torch.randn(300, 7)).bfloat16().requires_grad_()
    target = torch.randint(1, 7, (300,))
    got = token_loss(logits, target, SMOOTHINGS[0])
    got.loss.backward()
    assert got.loss.dtype == torch.float32
    assert logits.grad is not None
    assert logits.grad.dtype == torch.bfloat16
    wanted = written_out(logits.detach().double() - offset, target, SMOOTHINGS[0])
    assert got.loss.item() == pytest.approx(wanted.item(), rel=1e-5)


@pytest.mark.parametrize("chunk", [1, 40, 2**20], ids="chunk {}".format)
def test_the_projected_loss_and_both_gradients_equal_those_of_the_plain_logits(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In float64, against torch's cross-entropy of logits that are all there; 11 rows in chunks of 1, 3 and all."""
    monkeypatch.setattr(module, "CHUNK", chunk)
    torch.manual_seed(3)
    hidden = torch.randn(2, 8, 5, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(13, 5, dtype=torch.float64, requires_grad=True)
    target = torch.randint(1, 13, (2, 8))
    target[0, 5:] = target[1, 6:] = 0
    got = projected_loss(hidden, weight, target, UniformSmoothingConfig(epsilon=0.1))
    rows, ids = (hidden @ weight.T).flatten(0, 1), target.flatten()
    wanted = F.cross_entropy(rows, ids, ignore_index=0, reduction="sum", label_smoothing=0.1)
    assert got.tokens == 11
    torch.testing.assert_close(got.loss, wanted, rtol=1e-12, atol=0)
    for one, two in zip(*(torch.autograd.grad(x / 7, (hidden, weight)) for x in (got.loss, wanted)), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-10, atol=1e-14)
    assert torch.autograd.gradcheck(
        lambda h, w: projected_loss(h, w, target, OthersSmoothingConfig(epsilon=0.2)).loss, (hidden, weight)
    )


@pytest.mark.parametrize(("biased", "cap"), [(True, None), (False, 0.7), (True, 0.7)])
def test_a_bias_and_a_cap_are_part_of_the_logits(
    biased: bool, cap: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against torch's cross-entropy of cap tanh((h W + b) / cap) (Gemma 2), gradients of all three, in chunks of 3."""
    monkeypatch.setattr(module, "CHUNK", 40)
    torch.manual_seed(3)
    unembed = Unembed(5, 13, bias=biased, scale=0.3, cap=cap).double()
    hidden = torch.randn(2, 8, 5, dtype=torch.float64, requires_grad=True)
    target = torch.randint(1, 13, (2, 8))
    target[0, 5:] = 0
    logits = torch.einsum("btd,vd->btv", 0.3 * hidden, unembed.weight)
    if biased:
        unembed.bias.data = torch.linspace(-1, 1, 13, dtype=torch.float64)
        logits = logits + unembed.bias
    logits = logits if cap is None else cap * torch.tanh(logits / cap)
    torch.testing.assert_close(unembed(hidden), logits, rtol=0, atol=1e-12)
    wanted = F.cross_entropy(
        logits.flatten(0, 1), target.flatten(), ignore_index=0, reduction="sum", label_smoothing=0.1
    )
    got = unembed_loss(hidden, unembed, target, UniformSmoothingConfig(epsilon=0.1))
    torch.testing.assert_close(got.loss, wanted, rtol=1e-12, atol=0)
    leaves = [hidden, *unembed.parameters()]
    for one, two in zip(*(torch.autograd.grad(x / 7, leaves) for x in (got.loss, wanted)), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-10, atol=1e-13)


def test_fixed_norms_make_every_row_of_the_table_a_unit_vector() -> None:
    """Nguyen and Salazar 2019: logits are products with w / |w|, whatever the length of w; the loss sees the same."""
    torch.manual_seed(3)
    unembed = Unembed(5, 13, fix_norm=True).double()
    hidden, target = torch.randn(8, 5, dtype=torch.float64), torch.randint(1, 13, (8,))
    logits = torch.stack([torch.stack([h @ w / w.pow(2).sum().sqrt() for w in unembed.weight]) for h in hidden])
    torch.testing.assert_close(unembed(hidden), logits, rtol=0, atol=1e-12)
    got = unembed_loss(hidden, unembed, target, UniformSmoothingConfig(epsilon=0.0))
    torch.testing.assert_close(got.loss, F.cross_entropy(logits, target, reduction="sum"), rtol=1e-12, atol=0)


def test_a_loss_without_gradients_is_the_same_and_leaves_none() -> None:
    logits, target = example()
    wanted = token_loss(logits, target, SMOOTHINGS[0])
    with torch.no_grad():
        got = token_loss(logits, target, SMOOTHINGS[0])
    assert torch.equal(got.loss, wanted.loss)
    assert not got.loss.requires_grad


@pytest.mark.parametrize("autocast", [False, True], ids=["weights in bfloat16", "autocast"])
def test_bfloat16_rounds_the_products_and_nothing_else(autocast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """900 rows in 23 chunks, against torch's cross-entropy in float64 of the same logits, rounded as bfloat16 does. The
    gradients are rounded twice to 8 bits, p - q and its products: each time by half of 2^-8 or less."""
    monkeypatch.setattr(module, "CHUNK", 40 * 50)
    torch.manual_seed(4)
    hidden, weight = (torch.randn(rows, 16).to(torch.float32 if autocast else torch.bfloat16) for rows in (900, 50))
    hidden, weight, target = hidden.requires_grad_(), weight.requires_grad_(), torch.randint(1, 50, (900,))
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        got = projected_loss(hidden, weight, target, UniformSmoothingConfig(epsilon=0.1))
    h, w = (x.detach().bfloat16().double() for x in (hidden, weight))
    logits = (h @ w.T).bfloat16().double().requires_grad_()
    wanted = F.cross_entropy(logits, target, reduction="sum", label_smoothing=0.1)
    (g,) = torch.autograd.grad(wanted, logits)
    assert got.loss.dtype == got.nll.dtype == torch.float32
    assert got.loss.item() == pytest.approx(wanted.item(), rel=1e-6)
    assert got.nll.item() == pytest.approx(F.cross_entropy(logits, target, reduction="sum").item(), rel=1e-6)
    twins = ((hidden, g @ w), (weight, g.T @ h))
    for (x, twin), gradient in zip(twins, torch.autograd.grad(got.loss, (hidden, weight)), strict=True):
        assert gradient.dtype == x.dtype
        assert (gradient.double() - twin).norm() < 2**-8 * twin.norm()


@pytest.mark.parametrize("autocast", [False, True], ids=["weights in bfloat16", "autocast"])
def test_in_bfloat16_sums_over_rows_and_chunks_are_whole(autocast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ones, whose products bfloat16 holds exactly, in 200 chunks of 3 rows: neither 600 log 4 nor sums of 0.75 beyond
    128 are bfloat16 numbers, and they come out whole."""
    monkeypatch.setattr(module, "CHUNK", 12)
    kind = torch.float32 if autocast else torch.bfloat16
    hidden, weight = torch.ones(600, 8, dtype=kind), torch.ones(4, 8, dtype=kind, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        got = projected_loss(hidden, weight, torch.full((600,), 3), UniformSmoothingConfig(epsilon=0.0))
    (gradient,) = torch.autograd.grad(got.loss, weight)
    assert got.loss.item() == pytest.approx(600 * math.log(4), rel=1e-5)
    assert torch.equal(gradient, (600 * torch.tensor([[0.25], [0.25], [0.25], [-0.75]])).to(kind).expand(4, 8))


@pytest.mark.parametrize(("chunk", "rows"), [(40, [3, 3, 3, 2]), (143, [11]), (12, [1] * 11)])
def test_no_more_logits_are_there_at_once_than_a_chunk_holds(
    chunk: int, rows: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """11 rows of 13 logits; a row that is longer than a chunk is looked at alone."""
    monkeypatch.setattr(module, "CHUNK", chunk)
    seen, softmax = list[int](), torch.softmax
    monkeypatch.setattr(torch, "softmax", lambda x, *args, **kw: (seen.append(len(x)), softmax(x, *args, **kw))[1])
    projected_loss(torch.randn(11, 5), torch.randn(13, 5), torch.ones(11, dtype=torch.long), SMOOTHINGS[0])
    assert seen == rows


class Products(TorchDispatchMode):
    """Counts the matrix products."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += "mm" in func.name()
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("learning", "products"), [("", 1), ("hidden", 2), ("weight", 2), ("hidden weight", 3)])
def test_gradients_are_worked_out_for_what_learns_and_for_nothing_else(
    learning: str, products: int, kind: torch.dtype
) -> None:
    torch.manual_seed(5)
    hidden, weight = torch.randn(3, 7, 5, dtype=kind), torch.randn(13, 5, dtype=kind)
    target, leaves = torch.randint(1, 13, (3, 7)), {"hidden": hidden, "weight": weight}
    whole = projected_loss(hidden.requires_grad_(), weight.requires_grad_(), target, SMOOTHINGS[0]).loss
    wanted = dict(zip(leaves, torch.autograd.grad(whole, (hidden, weight)), strict=True))
    for name, leaf in leaves.items():
        leaf.requires_grad_(name in learning)
    with Products() as counted:
        loss = projected_loss(hidden, weight, target, SMOOTHINGS[0]).loss
    assert counted.count == products
    for name in learning.split():
        assert torch.equal(torch.autograd.grad(loss, leaves[name], retain_graph=True)[0], wanted[name])


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_where_nothing_learns_now_no_gradient_is_worked_out(mode: type) -> None:
    hidden, weight = torch.randn(7, 5, requires_grad=True), torch.randn(13, 5, requires_grad=True)
    with mode(), Products() as counted:
        projected_loss(hidden, weight, torch.ones(7, dtype=torch.long), SMOOTHINGS[0])
    assert counted.count == 1
