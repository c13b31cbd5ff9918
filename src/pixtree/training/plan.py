"""A plan: the length, the optimiser and the learning rates of a training."""

import math
from dataclasses import dataclass

OPTIMISERS = ("adamw", "lamb", "sgd")
PRECISIONS = ("float32", "bfloat16")


@dataclass(frozen=True)
class Plan:
    """Length, optimiser and learning rate of a training.

    The learning rate rises linearly from `start` to `rate` over `warmup` steps and, if it is `falling`, goes to `stop` along a
    cosine. decay: weight decay. layer_decay: factor of the rate from one block to the one before it. scales: (beginning of a
    parameter's name, factor of its rate), of which the first that fits counts. clip: largest norm of the gradients. average: decay
    of the moving average of the weights, 0 for none.
    """

    steps: int = 400
    rate: float = 1e-2
    warmup: int = 20
    falling: bool = True
    start: float = 0.0
    stop: float = 0.0
    optimiser: str = "adamw"
    decay: float = 0.0
    momentum: float = 0.9
    epsilon: float = 1e-8
    layer_decay: float = 1.0
    scales: tuple[tuple[str, float], ...] = ()
    clip: float = 1.0
    average: float = 0.0
    precision: str = "float32"
    seed: int = 0
    every: int = 100  # steps between checkpoints

    def __post_init__(self) -> None:
        if self.steps < 1 or self.every < 1 or not self.rate > 0:
            raise ValueError(
                f"expected steps, rate and every above 0, got {self.steps}, {self.rate} and {self.every}; try 400, 1e-2, 100"
            )
        if not self.decay >= 0:
            raise ValueError(f"weight decay must be a number from 0 up, got {self.decay}; the paper has 1e-2")
        if not 0 < self.layer_decay <= 1 or not 0 <= self.average < 1:
            raise ValueError(
                f"expected a layer decay in (0, 1] and an average in [0, 1), got {self.layer_decay} and {self.average}; "
                "1 and 0 leave both out"
            )
        if self.optimiser not in OPTIMISERS or self.precision not in PRECISIONS:
            raise ValueError(
                f"expected an optimiser of {', '.join(OPTIMISERS)} and a precision of {', '.join(PRECISIONS)}, "
                f"got {self.optimiser!r} and {self.precision!r}; choose among these"
            )

    def rate_at(self, step: int) -> float:
        """The learning rate of a step."""
        rising = min(1.0, (step + 1) / max(1, self.warmup))
        share = 0.5 * (1.0 + math.cos(math.pi * step / self.steps)) if self.falling else 1.0
        return self.start + (self.stop + (self.rate - self.stop) * share - self.start) * rising
