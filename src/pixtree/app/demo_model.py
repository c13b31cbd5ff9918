"""The Vision Transformer of the Tokens room: its predictions and attention, merged and similar tokens, and the salient object."""

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pixtree.app.uploads import Pixels
from pixtree.models.coarsening.blocks import attend
from pixtree.models.coarsening.coarse_vit import CoarseViT
from pixtree.models.coarsening.coarsen import coarsen
from pixtree.models.retrofit import timm_model
from pixtree.models.timm_import import timm
from pixtree.tasks.salient import SIZE, salient

BEST = 5  # classes that are shown
COMPUTE = 0.5  # share of the original compute for the coarsened model


@dataclass(frozen=True, eq=False)
class DemoModel:
    """A timm model with weights from a file, and the same model with token trees between its blocks."""

    name: str
    vit: Any
    coarse: CoarseViT
    lock: threading.Lock = field(default_factory=threading.Lock)  # its hooks serve one image at a time

    @classmethod
    def load(cls, name: str, weights: Path) -> "DemoModel":
        """The timm model of that name, with weights from a safetensors file; nothing is downloaded."""
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        if not weights.is_file():
            raise FileNotFoundError(f"weights must be a file, {str(weights)!r} is not; give the path of a safetensors file")
        vit = timm_model(name, False, {})
        try:
            tensors = {key: tensor.float() for key, tensor in load_file(weights).items()}
            vit.load_state_dict(tensors)
        except (SafetensorError, RuntimeError) as error:
            reason = " ".join(str(error).split())[:120]
            raise ValueError(
                f"weights must be those of {name}, {weights.name} has others ({reason} …); choose another file"
            ) from None
        return cls(name, vit.eval(), coarsen(vit, COMPUTE).eval())

    @torch.inference_mode()
    def outputs(self, pixels: Pixels) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Header and arrays for one image (H, W, 3), which is squeezed into the square that the model expects.

        attention (N,): of the class token of the last block to each patch.
        similarity (N, N): cosines of tokens, 0 … 255.
        blocks (depth, N): the token that contains each patch after every block, at half the compute.
        """
        image = self._normalised(pixels)
        with self.lock:
            output, attention = self._last_block(image)
        tokens = torch.nn.functional.normalize(output[0, self.vit.num_prefix_tokens :], dim=-1)
        _, tree = self.coarse.forward_tree(image)
        blocks = torch.stack(tree.labels)[:, 0]
        header = {
            "grid": list(self.vit.patch_embed.grid_size),
            "counts": list(tree.counts),
            "compute": round(self.coarse.compute, 3),
            "answers": self._predictions(self.vit.forward_head(output)),
            "coarseAnswers": self._predictions(self.coarse(image)),
        }
        similarity = (tokens @ tokens.T).clamp(0.0, 1.0).mul(255.0).round()
        return header, {
            "attention": attention.numpy().astype(np.float32),
            "similarity": similarity.numpy().astype(np.uint8),
            "blocks": blocks.numpy().astype(np.uint16),
        }

    def salient(self, pixels: Pixels, tokens: int | None, side: str, snaps: bool) -> NDArray[np.bool_]:
        """The mask (H, W) of `pixtree.salient`. The model sees 448 pixels a side, or a little less, so that its patches fit."""
        patch = int(self.vit.patch_embed.patch_size[0])
        size, refine = SIZE // patch * patch, "snap" if snaps else None
        with self.lock:
            return np.asarray(salient(pixels, self.vit, tokens=tokens, side=side, refine=refine, size=size), bool)

    def _normalised(self, pixels: Pixels) -> Tensor:
        import PIL.Image

        config = self.vit.pretrained_cfg
        height, width = self.vit.patch_embed.img_size
        resized = PIL.Image.fromarray(pixels).resize((width, height), PIL.Image.Resampling.BICUBIC)
        values = torch.from_numpy(np.array(resized)).permute(2, 0, 1).to(torch.float32) / 255  # HWC -> CHW
        mean, std = (torch.tensor(config[key])[:, None, None] for key in ("mean", "std"))
        return ((values - mean) / std)[None]

    def _last_block(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """Tokens (1, K + N, D) after all blocks, and the class token's attention (N,) in the last one, mean over heads."""
        seen: list[tuple[Tensor, Any]] = []
        last, prefix = self.vit.blocks[-1], int(self.vit.num_prefix_tokens)
        hook = last.register_forward_pre_hook(
            lambda _, given, options: seen.append((given[0], options.get("rope"))), with_kwargs=True
        )
        try:
            output = self.vit.forward_features(image)
        finally:
            hook.remove()
        _, _, attention = attend(last, seen[0][0], None, seen[0][1], whole=True)
        queries = slice(0, 1) if prefix else slice(None)  # all tokens, for models without a class token
        return output, cast(Tensor, attention)[0, :, queries, prefix:].mean(dim=(0, 1))

    def _predictions(self, logits: Tensor) -> list[dict[str, Any]]:
        shares, classes = logits[0].softmax(dim=-1).topk(min(BEST, logits.shape[1]))
        return [
            {"name": self._class_name(number), "share": round(share, 4)}
            for share, number in zip(shares.tolist(), classes.tolist(), strict=True)
        ]

    def _class_name(self, number: int) -> str:
        if self.vit.num_classes != 1000:
            return f"class {number}"
        return str(timm.data.ImageNetInfo().index_to_description(number)).split(",")[0]
