"""Mean injection: the learned colour of a region takes the place of its mean colour. [`eq:mean_injection`, `eq:recloss`]"""

from torch import Tensor

from pixtree.kernels.segments import paint


def inject_means(pixels: Tensor, colours: Tensor, means: Tensor, labels: Tensor) -> Tensor:
    """x̂ = x + W f* − x̄*, planes (B, C, P); colours W f* and means x̄* are rows (B, N, C). Equal rows leave x as it is."""
    painted: Tensor = paint(colours - means, labels)
    return pixels + painted


def reconstruction_loss(pixels: Tensor, colours: Tensor, labels: Tensor) -> Tensor:
    """L_rec = 1/|V| Σ_v ‖x(v) − W f*(v)‖², a scalar; pixels outside all regions count with their own square."""
    painted: Tensor = paint(colours, labels)
    return (pixels - painted).square().sum(dim=1).mean()
