"""Merging rules: which tokens of a block become one. Ours is Ward's tree; the others are baselines of the literature.

The baselines are written from their papers, at the same place of a block as ours and with exact counts. All average tokens by size
and bias keys by log(size), as ToMe does. See docs/coarsen.md for the differences from the publications.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from pixtree.kernels import kernels_for
from pixtree.kernels.tokens.cluster.definition import number_roots, strips
from pixtree.models.coarsening.blocks import Projections
from pixtree.runtime.backend import checked_backend
from pixtree.runtime.precision import full_precision

ROUNDS = 8  # of the trees of photos' tokens, 99 % need seven or fewer
LEAST = 1e-9  # weights are positive


class Seen(NamedTuple):
    """The input of a rule at one block.

    rows: tokens (B, K + n, D), the residual stream after attention. sizes: (B, n) float32, patches in each token. prefix: K.
    readers: how many of the first tokens the head reads, 0 where it pools tokens. number, depth: of the block.
    made: queries, keys and values. attention: (B, heads, K + n, K + n), only if the rule requests it.
    norm: applied to the MLP's input, None without.
    """

    rows: Tensor
    sizes: Tensor
    prefix: int
    readers: int
    number: int
    depth: int
    made: Projections
    attention: Tensor | None
    norm: nn.Module | None

    @property
    def tokens(self) -> Tensor:
        """The tokens without the prefix, (B, n, D)."""
        return self.rows[:, self.prefix :]

    def read(self) -> Tensor:
        """Tokens as the MLP of the block reads them, (B, n, D) float32."""
        read = self.tokens if self.norm is None else self.norm(self.tokens)
        return read.to(torch.float32)

    def keys(self) -> Tensor:
        """The mean key over heads of every token, (B, n, d), of unit length, as compared by ToMe."""
        return functional.normalize(self.made.key[:, :, self.prefix :].mean(dim=1).to(torch.float32), dim=-1)

    def class_attention(self) -> Tensor:
        """How much the tokens that the head reads attend to each token, mean over heads, (B, n)."""
        return self.made.attention_of_first(self.readers)[..., self.prefix :].mean(dim=(1, 2))

    def received_attention(self) -> Tensor:
        """How much all tokens attend to each token, mean over heads, (B, n)."""
        attention = self.made.attention() if self.attention is None else self.attention
        return attention[..., self.prefix :].mean(dim=(1, 2))


class Rule(Protocol):
    """Which tokens merge: labels (B, n) int64 that use every number from 0 to count − 1, with n / 2 ≤ count ≤ n."""

    def __call__(self, seen: Seen, count: int) -> Tensor:
        """Labels of the tokens of one block."""

    def asks_for_attention(self, readers: int) -> bool:
        """Whether the rule needs all attention weights, which are then computed once for block and rule."""

    def flops(self, tokens: int, count: int, width: int, head: int) -> int:
        """Floating-point operations of its matrix products for one image; D and d are `width` and `head`."""


@dataclass(frozen=True)
class WardTree:
    """Ward's tree of the tokens, weighted by attention: tokens that matter to the head stay fine, the rest becomes coarse.

    Two tokens are near if the MLP reads them as nearly the same, and a token weighs as much as the class token attends to it, or
    all tokens do where the head pools tokens. In the first `unsure` share of the blocks neither is informative yet: there tokens
    are compared by direction and weigh their size.
    """

    unsure: float = 1 / 6
    backend: str = "auto"

    def __call__(self, seen: Seen, count: int) -> Tensor:
        """Labels (B, n): the cut of the tree with `count` clusters."""
        if seen.number < round(self.unsure * seen.depth):
            features, weights = functional.normalize(seen.tokens.to(torch.float32), dim=-1), seen.sizes
        else:
            features, weights = seen.read(), attention_of(seen)
        kernels = kernels_for(self.backend, features.device)
        with full_precision(features.device):  # autocast would round the distances
            labels: Tensor = kernels.ward_labels(features.to(torch.float32), weights, count, ROUNDS)
        return labels

    def asks_for_attention(self, readers: int) -> bool:
        """Only where the head does not read a class token."""
        return readers == 0

    def flops(self, tokens: int, count: int, width: int, head: int) -> int:
        """Of the distances, and of the class token's attention."""
        return 2 * width * (sum((end - start) * (tokens - start) for start, end in strips(tokens)) + tokens)


def attention_of(seen: Seen) -> Tensor:
    """How much the tokens that the head reads attend to each token, or all tokens where it pools them: (B, n) float32, positive."""
    weights = seen.class_attention() if seen.readers else seen.received_attention()
    return weights.to(torch.float32).clamp_min(LEAST)


class _OfKeys:
    """A baseline that compares keys, without attention weights."""

    def asks_for_attention(self, readers: int) -> bool:
        """No."""
        return False

    def flops(self, tokens: int, count: int, width: int, head: int) -> int:
        """Of all similarities."""
        return 2 * tokens * tokens * head


@dataclass(frozen=True)
class BipartiteMatching(_OfKeys):
    """ToMe (Bolya et al., 2023): every second token merges into its most similar one among the others, the most similar first."""

    def __call__(self, seen: Seen, count: int) -> Tensor:
        """Labels (B, n)."""
        return _matched(seen.keys(), _alternating(seen.sizes), count)

    def flops(self, tokens: int, count: int, width: int, head: int) -> int:
        """Of the similarities between the halves."""
        return 2 * (tokens // 2) * (tokens - tokens // 2) * head


@dataclass(frozen=True)
class SizeDistinctiveMatching(BipartiteMatching):
    """The matching of ATM (Lee and Choi, 2025): ToMe's, but in the last blocks the smaller half merges into the larger half.

    Its thresholds, which let the number of merges depend on the batch, are left out: counts are exact here.
    """

    late: float = 2 / 3  # from which share of the depth on

    def __call__(self, seen: Seen, count: int) -> Tensor:
        """Labels (B, n)."""
        order = _alternating(seen.sizes)
        if seen.number >= self.late * seen.depth:
            order = seen.sizes.sort(dim=1, stable=True).indices
        return _matched(seen.keys(), order, count)


@dataclass(frozen=True)
class AverageLinkage(_OfKeys):
    """ATC (Haurum et al., 2024): agglomerative clustering of keys by cosine distance, average linkage."""

    backend: str = "auto"

    def __call__(self, seen: Seen, count: int) -> Tensor:
        """Labels (B, n)."""
        keys = seen.keys().to(torch.float32)
        with full_precision(keys.device):  # autocast would round the distances
            products = keys @ keys.transpose(1, 2)
        distances = (1.0 - 0.5 * (products + products.transpose(1, 2))).clamp_min(0.0)
        kernels = kernels_for(self.backend, keys.device)
        labels: Tensor = kernels.cluster_labels(distances, torch.ones_like(seen.sizes), count, ROUNDS, False)
        return labels


@dataclass(frozen=True)
class EnergyMatching(_OfKeys):
    """PiToMe (Tran et al., 2024): only tokens with many similar ones (high energy) take part in a bipartite matching.

    The margin falls linearly with depth from `margin`.
    """

    margin: float = 0.9

    def __call__(self, seen: Seen, count: int) -> Tensor:
        """Labels (B, n)."""
        keys = seen.keys()
        similar, merges = keys @ keys.transpose(1, 2), keys.shape[1] - count
        margin = self.margin * (1.0 - seen.number / seen.depth)
        energy = functional.elu(similar - margin).mean(dim=-1)
        mergeable = energy.sort(dim=1, descending=True, stable=True).indices[:, : 2 * merges]
        source, target = mergeable[:, ::2], mergeable[:, 1::2]
        batch = torch.arange(len(keys), device=keys.device)[:, None]
        between = similar[batch[..., None], source[:, :, None], target[:, None]]
        return number_roots(_own_parents(seen.sizes).scatter(1, source, target.gather(1, between.argmax(dim=2))))


@dataclass(frozen=True)
class MultiCriteriaMatching:
    """MCTF (Lee et al., 2024): bipartite matching in both directions by similarity, attention received and size.

    This block's attention takes the place of the next one's ("one step ahead"), which our place in the block does not have yet.
    """

    attention_temperature: float = 20.0
    size_temperature: float = 40.0

    def __call__(self, seen: Seen, count: int) -> Tensor:
        """Labels (B, n)."""
        order = _alternating(seen.sizes)
        tokens = functional.normalize(seen.tokens.to(torch.float32), dim=-1)
        unseen, small = (_share_of_largest(1.0 / values) for values in (seen.received_attention().clamp_min(1e-9), seen.sizes))
        mergeable = unseen ** (1.0 / self.attention_temperature) * small ** (1.0 / self.size_temperature)
        half = tokens.shape[1] // 2
        first, second = order[:, :half], order[:, half:]
        similar = _taken(tokens, first) @ _taken(tokens, second).transpose(1, 2)
        scores = (similar + 1.0) / 2.0 * mergeable.gather(1, first)[:, :, None] * mergeable.gather(1, second)[:, None]
        merges = tokens.shape[1] - count
        forth = merges // 2
        best = scores.max(dim=2)
        going = best.values.sort(dim=1, descending=True, stable=True).indices[:, :forth]
        parent = _own_parents(seen.sizes).scatter(1, first.gather(1, going), second.gather(1, best.indices.gather(1, going)))
        # Tokens that have merged cannot be targets in the other direction.
        back = scores.scatter(1, going[:, :, None].expand(-1, -1, scores.shape[2]), -torch.inf).max(dim=1)
        coming = back.values.sort(dim=1, descending=True, stable=True).indices[:, : merges - forth]
        return number_roots(parent.scatter(1, second.gather(1, coming), first.gather(1, back.indices.gather(1, coming))))

    def asks_for_attention(self, readers: int) -> bool:
        """Always."""
        return True

    def flops(self, tokens: int, count: int, width: int, head: int) -> int:
        """Of the similarities between the halves."""
        return 2 * (tokens // 2) * (tokens - tokens // 2) * width


@dataclass(frozen=True)
class RandomPairs(_OfKeys):
    """Pairs drawn at random, the same for every image of a call and every call with the same seed."""

    seed: int = 0

    def __call__(self, seen: Seen, count: int) -> Tensor:
        """Labels (B, n)."""
        tokens = seen.sizes.shape[1]
        generator = torch.Generator().manual_seed(self.seed * 1000 + seen.number)
        order = torch.randperm(tokens, generator=generator).to(seen.sizes.device).expand_as(seen.sizes)
        merges = tokens - count
        return number_roots(_own_parents(seen.sizes).scatter(1, order[:, :merges], order[:, merges : 2 * merges]))

    def flops(self, tokens: int, count: int, width: int, head: int) -> int:
        """None."""
        return 0


def _own_parents(sizes: Tensor) -> Tensor:
    return torch.arange(sizes.shape[1], device=sizes.device).expand(sizes.shape)


def _alternating(sizes: Tensor) -> Tensor:
    """Numbers of tokens (B, n): first every second one, then the others. With a class token before them these are ToMe's halves."""
    numbers = torch.arange(sizes.shape[1], device=sizes.device)
    return torch.cat((numbers[1::2], numbers[::2])).expand(sizes.shape)


def _matched(features: Tensor, order: Tensor, count: int) -> Tensor:
    """Labels (B, n) when tokens of the first half of `order` merge into their most similar ones of the second half."""
    tokens = features.shape[1]
    first, second = order[:, : tokens // 2], order[:, tokens // 2 :]
    best = (_taken(features, first) @ _taken(features, second).transpose(1, 2)).max(dim=2)
    going = best.values.sort(dim=1, descending=True, stable=True).indices[:, : tokens - count]
    parent = torch.arange(tokens, device=order.device).expand_as(order)
    return number_roots(parent.scatter(1, first.gather(1, going), second.gather(1, best.indices.gather(1, going))))


def _taken(values: Tensor, numbers: Tensor) -> Tensor:
    """Values (B, n, C) at numbers (B, m): (B, m, C)."""
    return values.gather(1, numbers[:, :, None].expand(-1, -1, values.shape[2]))


def _share_of_largest(values: Tensor) -> Tensor:
    return values / values.amax(dim=1, keepdim=True)


RULES: dict[str, Callable[[str], Rule]] = {
    "tree": lambda backend: WardTree(backend=backend),
    "tome": lambda backend: BipartiteMatching(),
    "atc": lambda backend: AverageLinkage(backend=backend),
    "pitome": lambda backend: EnergyMatching(),
    "mctf": lambda backend: MultiCriteriaMatching(),
    "atm": lambda backend: SizeDistinctiveMatching(),
    "random": lambda backend: RandomPairs(),
}


def rule_of(rule: str | Rule, backend: str = "auto") -> Rule:
    """A rule by name; a rule object is returned unchanged."""
    checked_backend(backend)
    if not isinstance(rule, str):
        return rule
    if rule not in RULES:
        raise ValueError(f"a merging rule is one of {', '.join(RULES)}, got {rule!r}; choose one of these")
    return RULES[rule](backend)
