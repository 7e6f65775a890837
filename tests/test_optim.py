"""Schedules against the paper's numbers, Adam against its written-out update."""

import pytest
import torch
from torch import nn

from headway.config import AdamConfig, InverseSqrtConfig, NoamConfig
from headway.train.optim import build_optimizer, build_schedule


def test_the_papers_schedule_has_the_papers_values() -> None:
    schedule = build_schedule(NoamConfig(dim=512, warmup=4000), steps=100_000)
    wanted = {1: 1.74693e-7, 100: 1.74693e-5, 4000: 6.98771e-4, 16_000: 3.49386e-4, 100_000: 1.39754e-4}
    assert {step: schedule(step) for step in wanted} == pytest.approx(wanted, rel=1e-5)
    assert build_schedule(NoamConfig(dim=1024, warmup=4000), 9)(4000) == pytest.approx(4.94106e-4, rel=1e-5)
    assert build_schedule(NoamConfig(dim=512, warmup=4000, factor=2.0), 9)(100) == pytest.approx(3.49386e-5, rel=1e-5)


def test_inverse_square_root_rises_in_a_line_to_its_peak_and_halves_in_four_times_the_steps() -> None:
    schedule = build_schedule(InverseSqrtConfig(peak=4e-3, warmup=800), steps=5000)
    assert [schedule(step) for step in (1, 400, 800, 3200)] == pytest.approx([5e-6, 2e-3, 4e-3, 2e-3])


def test_warmup_may_be_a_share_of_the_run() -> None:
    share = build_schedule(InverseSqrtConfig(peak=1.0, warmup=0.25), steps=1000)
    assert share(125) == 0.5
    assert share(250) == share(1000) * 2 == 1
    assert build_schedule(InverseSqrtConfig(peak=1.0, warmup=0.01), steps=7)(1) == 1, "a share is one step at least"


def test_adam_is_the_written_out_update_on_every_parameter_once() -> None:
    torch.manual_seed(0)
    model = nn.ModuleList([nn.Linear(3, 5, dtype=torch.float64), nn.Linear(3, 5, dtype=torch.float64)])
    model[1].weight = model[0].weight
    model[1].bias.requires_grad_(False)
    optimizer = build_optimizer(AdamConfig(), model)
    weight = model[0].weight
    x, m, v = weight.detach().clone(), torch.zeros_like(weight), torch.zeros_like(weight)
    for step in range(1, 5):
        weight.grad = torch.randn_like(weight)
        optimizer.param_groups[0]["lr"] = lr = 0.1 / step
        optimizer.step()
        m = 0.9 * m + 0.1 * weight.grad
        v = 0.98 * v + 0.02 * weight.grad**2
        x = x - lr * (m / (1 - 0.9**step)) / ((v / (1 - 0.98**step)).sqrt() + 1e-9)
        torch.testing.assert_close(weight.detach(), x, rtol=1e-12, atol=1e-15)
    assert len(optimizer.param_groups[0]["params"]) == 2
