"""The public names: their parameters are written here, and every one of them has an example that runs."""

import doctest
import importlib
import inspect

import pytest

import pixtree
from pixtree.models import PixtreeViT
from pixtree.models.backbone import LikeTimm
from pixtree.tokenizer.tokens import Tokens
from pixtree.vector.drawing import Drawing

# Names and parameters that users rely on; a change here needs a line in CHANGELOG.md.
TREE = ["similarity", "compactness", "energy", "floor"]
READING = ["channel_axis", "window", "page"]
SURFACE = {
    "AtMost": ["count", "criterion"],
    "Cosine": [],
    "Criterion": ["name", "penalty", "floor", "shape", "single_volume", "constants", "rule", "nodes"],
    "Exactly": ["count"],
    "Gaussian": [],
    "Level": ["level"],
    "Likelihood": ["length_exponent", "ward_rounds"],
    "Partition": ["labels", "tree"],
    "Tanimoto": [],
    "Tokenizer": ["budget", "options", "backend", "changes"],
    "Tokenizer.forward": ["self", "images", "partition", "budget"],
    "Tokenizer.paper": ["budget", "changes"],
    "Tokenizer.pretrained": ["budget", "changes"],
    "Ward": ["length_exponent"],
    "coarsen": [
        *("model", "compute", "tokens", "speed", "schedule", "rule", "input_size", "final_tokens", "pool", "final_layer"),
        *("backend", "pretrained", "model_args"),
    ],
    "hierarchy": ["image", *TREE, "mask", *READING, "backend", "words"],
    "retrofit": [
        *("model", "tokens", "budget", "partitioner", "tokenizer"),
        *("position_resolution", "backend", "pretrained", "model_args"),
    ],
    "salient": ["image", "model", "tokens", "affinity", "side", "refine", "objects", "size"],
    "segment": [
        *("image", "tokens", "criterion", "at_most", "level", "budget"),
        *("partitioner", "relax", "mask", "start_label", *READING, *TREE, "backend", "words"),
    ],
    "segment_tiles": ["source", "output", "tokens", "tile", "window", "tell"],
    "select": ["tree", "inside", "outside"],
    "snap": ["mask", "image"],
    "vectorize": [
        *("image", "paths", "bytes", "psnr", "points", "colors", "style", "preset", "artwork"),
        *("tolerance", "fast", "transparency", "groups", "ids", "passes", "editable", "layers", *READING),
    ],
    "Hierarchy.cut": ["self", "tokens", "criterion", "at_most", "budget", "relax"],
    "Hierarchy.at_level": ["self", "level"],
    "Hierarchy.contours": ["self"],
    "Hierarchy.table": ["self", "tokens", "values"],
    "Hierarchy.to_higra": ["self"],
    "Hierarchy.to_linkage": ["self"],
    "Hierarchy.save": ["self", "path"],
    "Hierarchy.load": ["path", "backend"],
    "Partition.from_labels": ["labels", "backend"],
    "Partition.merge": ["self", "labels"],
    "Partition.split": ["self", "label", "tokens"],
    "Partition.areas": ["self", "image"],
    "Partition.boxes": ["self", "image"],
    "Partition.adjacency": ["self", "image"],
    "Partition.numpy": ["self"],
    "Partition.to_skimage": ["self"],
    "Partitioner.__call__": ["self", "images"],
}
PACKAGES = {
    "models": [
        *(
            "Backbone",
            "CoarseViT",
            "ConstantShare",
            "EarlyShare",
            "EverySecond",
            "PixtreeViT",
            "Segmenter",
            "Speed",
            "TokenSequence",
            "WithPartition",
        ),
        *("best_schedule", "coarsen"),
        *("collate_partitions", "cut_ahead", "export_onnx", "from_pretrained", "named_model", "retrofit", "scratch", "tower_of"),
    ],
    "partitioners": ["NAMES", "Baseline", "name_of", "partitioner"],
    "tokenizer": ["Options", "Tokenizer", "Tokens", "from_release", "load_weights", "save_weights", "shipped_weights"],
}
RESULTS = (Drawing, LikeTimm, PixtreeViT, Tokens)  # made by public functions
EXAMPLES = [
    *(
        "Hierarchy.cut",
        "Hierarchy.at_level",
        "Hierarchy.contours",
        "Hierarchy.table",
        "Hierarchy.save",
        "Partition.from_labels",
        "Partition.areas",
    ),
    *("Partition.merge", "Partition.split", "Partition.boxes", "Partition.adjacency", "Tokenizer.paper", "Tokenizer.pretrained"),
]


def named(path: str) -> object:
    found: object = pixtree
    for name in path.split("."):
        found = getattr(found, name)
    return found


def test_the_public_names_are_these():
    assert sorted({name.partition(".")[0] for name in SURFACE}) == sorted(pixtree.__all__)
    assert set(dir(pixtree)) == {*pixtree.__all__, "__version__"}


@pytest.mark.parametrize("name", PACKAGES)
def test_the_public_names_of_a_package_are_these(name):
    package = importlib.import_module(f"pixtree.{name}")
    assert sorted(package.__all__) == sorted(PACKAGES[name])
    assert [public for public in PACKAGES[name] if not hasattr(package, public)] == []


def test_public_functions_have_the_parameters_that_users_rely_on():
    assert {name: list(inspect.signature(named(name)).parameters) for name in SURFACE} == SURFACE


def test_every_public_name_has_an_example():
    assert [name for name in (*pixtree.__all__, *EXAMPLES) if ">>>" not in (inspect.getdoc(named(name)) or "")] == []


@pytest.mark.parametrize("thing", [*(named(name) for name in pixtree.__all__), *RESULTS], ids=lambda thing: thing.__name__)
def test_the_examples_run(thing):
    examples = [test for test in doctest.DocTestFinder().find(thing, thing.__name__) if test.examples]
    assert examples
    said: list[str] = []
    for example in examples:
        outcome = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(example, out=said.append)
        assert outcome.failed == 0, "".join(said)
