"""Mean injection: the learned colour of a region takes the place of its mean colour. [`eq:mean_injection`, `eq:recloss`]"""

from torch import Tensor

from pixtree.kernels import kernels_for


def inject_means(pixels: Tensor, colours: Tensor, means: Tensor, labels: Tensor, backend: str = "auto") -> Tensor:
    """x̂ = x + W f* − x̄*, planes (B, C, P); colours W f* and means x̄* are rows (B, N, C). Equal rows leave x as it is."""
    return pixels + kernels_for(backend, pixels.device).paint(colours - means, labels)


def reconstruction_loss(pixels: Tensor, colours: Tensor, labels: Tensor, backend: str = "auto") -> Tensor:
    """L_rec = 1/|V| Σ_v ‖x(v) − W f*(v)‖², a scalar; pixels outside all regions count with their own square."""
    return (pixels - kernels_for(backend, pixels.device).paint(colours, labels)).square().sum(dim=1).mean()
