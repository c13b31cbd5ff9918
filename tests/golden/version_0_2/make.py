"""Runs that were stopped half-way, as version 0.2 left them: `python tests/golden/version_0_2/make.py` with that version installed.

Each folder also has expected.json, the losses of the same run without the interruption. `tests/training/test_older_runs.py` resumes
them, and imports the commands and the model from here.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import save_file

from pixtree.models.timm_import import timm

HERE = Path(__file__).parent
TEACHER = "pixtree_tiny_teacher"
TINY = {"img_size": 32, "patch_size": 8, "embed_dim": 6, "depth": 1, "num_heads": 2}
SHAPE = {key: value for key, value in TINY.items() if key != "img_size"}


def pixtree_tiny_teacher(pretrained=False, **changes):
    """A timm model of a few thousand weights."""
    config = {
        "architecture": TEACHER,
        "input_size": (3, 32, 32),
        "mean": (0.5,) * 3,
        "std": (0.5,) * 3,
        "crop_pct": 1.0,
        "classifier": "head",
    }
    kept = {key: value for key, value in changes.items() if key in ("img_size", "num_classes")}
    model = timm.models.VisionTransformer(**(TINY | {"num_classes": 3} | kept))
    model.pretrained_cfg = model.default_cfg = config
    return model


pixtree_tiny_teacher.__module__ = "timm.models.vision_transformer"  # where register_model keeps its list of names
timm.models.register_model(pixtree_tiny_teacher)

CHANGES = [
    "model.name=vit_tiny_patch16_224",
    f"model.arguments={json.dumps(SHAPE | {'img_size': 32})}",
    "model.start=fresh",
    "model.image_size=32",
    "model.tokens=6",
    "model.frozen=true",
    "model.encoder=fresh",
    "schedule.batch=4",
    "schedule.part=2",
    "schedule.own_rate=2.0",
    "schedule.epochs=5.34",
]


def commands(data, output):
    """The arguments of each run, by the name of its folder."""
    sets = [word for change in CHANGES for word in ("--set", change)]
    students = ["train", "distill", TEACHER, str(data), "--weights", str(HERE / "teacher.safetensors"), "--part", "2"]
    encoder = ["train", "tokenizer", str(data), "-o", str(output / "encoder.safetensors"), "--steps", "104"]
    encoder += ["--batch", "1", "--size", "16"]
    return {
        "recipe": ["train", "recipe", "retrofit_laptop", str(data), "-o", str(output), "--workers", "0", *sets],
        "distill": [*students, "-o", str(output), "--tokens", "6", "--epochs", "4", "--batch", "4", "--workers", "0"],
        "tokenizer": [*encoder, "--tokens", "6", "--features", "4", "--compactness", "0.05", "--association", "0.5"],
    }


def losses_of(folder):
    """The losses in the checkpoint of a run."""
    (path,) = (*folder.glob("checkpoint.pt"), *folder.glob("*.checkpoint"))
    return torch.load(path, weights_only=True)["curve"]


def main():
    sys.path[:0] = [str(HERE.parents[1])]
    import pixtree.cli.steps as steps
    from commands import invoke
    from generated_pictures import class_folders

    from pixtree.cli.main import app

    torch.manual_seed(0)
    save_file(timm.create_model(TEACHER).half().state_dict(), HERE / "teacher.safetensors")
    shown = steps.Steps.__call__
    with tempfile.TemporaryDirectory() as name:
        data = class_folders(Path(name) / "data", classes=2, each=3)
        for kind in commands(data, data):
            folders = {}
            for way in ("whole", "stopped"):
                folders[way] = Path(name) / kind / way
                folders[way].mkdir(parents=True)
                last = {"tokenizer": 102}.get(kind, 4) if way == "stopped" else 10**6

                def report(self, step, figures, last=last):
                    if step == last:
                        raise KeyboardInterrupt
                    shown(self, step, figures)

                steps.Steps.__call__ = report
                torch.manual_seed(0)  # as in a new process: 0.2 seeded the order of a distillation, and not the new weights
                result = invoke(app, commands(data, folders[way])[kind])
                print(kind, way, result.exit_code, result.output)
            target = HERE / kind
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(folders["stopped"], target, ignore=shutil.ignore_patterns("tensorboard"))
            kept = folders["whole"] / "recipe.yaml"
            if kept.is_file():
                shutil.copy(kept, target)
            (target / "expected.json").write_text(json.dumps(losses_of(folders["whole"])) + "\n")


if __name__ == "__main__":
    main()
