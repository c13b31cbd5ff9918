"""Merging rules of the literature, written from their papers, at the same place of a block as ours and with exact counts.

All average rows by size and bias keys by log(size), as ToMe does. See docs/coarsen.md for what differs from the publications.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from pixtree.kernels import kernels_for
from pixtree.kernels.tokens.cluster.definition import number_roots
from pixtree.models.coarsening.seen import Seen
from pixtree.models.coarsening.tree import ROUNDS
from pixtree.runtime.precision import full_precision


@dataclass(frozen=True)
class BipartiteMatching:
    """ToMe (Bolya et al., 2023): every second token merges into its most similar one among the others, the most similar first."""

    def __call__(self, seen: Seen, count: int) -> Tensor:
        """Labels (B, n)."""
        return _matched(seen.keys(), _alternating(seen.sizes), count)

    def asks_for_attention(self, readers: int) -> bool:
        """No."""
        return False

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
class AverageLinkage:
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

    def asks_for_attention(self, readers: int) -> bool:
        """No."""
        return False

    def flops(self, tokens: int, count: int, width: int, head: int) -> int:
        """Of all similarities."""
        return 2 * tokens * tokens * head


@dataclass(frozen=True)
class EnergyMatching:
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

    def asks_for_attention(self, readers: int) -> bool:
        """No."""
        return False

    def flops(self, tokens: int, count: int, width: int, head: int) -> int:
        """Of all similarities."""
        return 2 * tokens * tokens * head


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
        rows = functional.normalize(seen.tokens.to(torch.float32), dim=-1)
        unseen, small = (_share_of_largest(1.0 / values) for values in (seen.received_attention().clamp_min(1e-9), seen.sizes))
        pull = unseen ** (1.0 / self.attention_temperature) * small ** (1.0 / self.size_temperature)
        half = rows.shape[1] // 2
        first, second = order[:, :half], order[:, half:]
        similar = _rows(rows, first) @ _rows(rows, second).transpose(1, 2)
        scores = (similar + 1.0) / 2.0 * pull.gather(1, first)[:, :, None] * pull.gather(1, second)[:, None]
        merges = rows.shape[1] - count
        forth = merges // 2
        best = scores.max(dim=2)
        going = best.values.sort(dim=1, descending=True, stable=True).indices[:, :forth]
        parent = _own_parents(seen.sizes).scatter(1, first.gather(1, going), second.gather(1, best.indices.gather(1, going)))
        # Those that went are no targets for the way back.
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
class RandomPairs:
    """Pairs drawn at random, the same for every image of a call and every call with the same seed."""

    seed: int = 0

    def __call__(self, seen: Seen, count: int) -> Tensor:
        """Labels (B, n)."""
        tokens = seen.sizes.shape[1]
        generator = torch.Generator().manual_seed(self.seed * 1000 + seen.number)
        order = torch.randperm(tokens, generator=generator).to(seen.sizes.device).expand_as(seen.sizes)
        merges = tokens - count
        return number_roots(_own_parents(seen.sizes).scatter(1, order[:, :merges], order[:, merges : 2 * merges]))

    def asks_for_attention(self, readers: int) -> bool:
        """No."""
        return False

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
    best = (_rows(features, first) @ _rows(features, second).transpose(1, 2)).max(dim=2)
    going = best.values.sort(dim=1, descending=True, stable=True).indices[:, : tokens - count]
    parent = torch.arange(tokens, device=order.device).expand_as(order)
    return number_roots(parent.scatter(1, first.gather(1, going), second.gather(1, best.indices.gather(1, going))))


def _rows(values: Tensor, numbers: Tensor) -> Tensor:
    return values.gather(1, numbers[:, :, None].expand(-1, -1, values.shape[2]))


def _share_of_largest(values: Tensor) -> Tensor:
    return values / values.amax(dim=1, keepdim=True)
