"""Linear probe: logistic regression on the features of a model, its regularisation chosen on a part of the training pictures."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

DECAYS = (1e-4, 1e-3, 1e-2, 1e-1)
STEPS = 200  # of L-BFGS, at most
HELD_OUT = 5  # every fifth training picture chooses the regularisation


class Probe(nn.Module):
    """Standardised features (N, D) -> logits (N, classes)."""

    def __init__(self, features: Tensor, classes: int) -> None:
        super().__init__()
        self.register_buffer("mean", features.mean(dim=0))
        self.register_buffer("scale", 1.0 / features.std(dim=0).clamp_min(1e-6))
        self.linear = nn.Linear(features.shape[1], classes)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    mean: Tensor
    scale: Tensor

    def forward(self, features: Tensor) -> Tensor:
        """Logits (N, classes)."""
        logits: Tensor = self.linear((features - self.mean) * self.scale)
        return logits


def fitted(features: Tensor, classes: Tensor, number: int, decay: float, steps: int = STEPS) -> Probe:
    """The minimum of mean cross entropy + decay · ‖weights‖², which is convex: the start does not matter."""
    probe = Probe(features, number)
    optimiser = torch.optim.LBFGS(probe.parameters(), max_iter=steps, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        value = functional.cross_entropy(probe(features), classes) + decay * probe.linear.weight.square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimiser.step(loss)  # type: ignore[no-untyped-call]
    return probe


def accuracy(probe: Probe, features: Tensor, classes: Tensor) -> float:
    """The share of features whose class is found."""
    with torch.no_grad():
        return float((probe(features).argmax(1) == classes).double().mean())


def probe_accuracy(
    learned: Tensor, classes: Tensor, tested: Tensor, truth: Tensor, decays: Sequence[float] = DECAYS
) -> tuple[float, float]:
    """Accuracy on tested features (M, D) of the probe of learned ones (N, D), and the decay that was chosen for it."""
    found, decay = probe_answers(learned, classes, tested, decays)
    return float((found == truth).double().mean()), decay


def probe_answers(learned: Tensor, classes: Tensor, tested: Tensor, decays: Sequence[float] = DECAYS) -> tuple[Tensor, float]:
    """The classes (M,) that the probe of learned features (N, D) gives tested ones (M, D), and the decay chosen for it."""
    known, dense = torch.unique(classes, return_inverse=True)
    if len(known) < 2:
        raise ValueError(f"a probe needs at least two classes to tell apart, got {len(known)}; give other pictures")
    chosen = decays[0] if len(decays) == 1 else _chosen(learned, dense, len(known), decays)
    with torch.no_grad():
        return known[fitted(learned, dense, len(known), chosen)(tested).argmax(1)], chosen


def _chosen(features: Tensor, classes: Tensor, number: int, decays: Sequence[float]) -> float:
    """The decay of the highest accuracy on every fifth picture, the strongest of equals."""
    order = torch.randperm(len(features), generator=torch.Generator().manual_seed(0))  # files of one class stand together
    held, kept = order[::HELD_OUT], torch.cat([order[first::HELD_OUT] for first in range(1, HELD_OUT)])
    found = {
        decay: accuracy(fitted(features[kept], classes[kept], number, decay), features[held], classes[held]) for decay in decays
    }
    return max(found, key=lambda decay: (found[decay], decay))
