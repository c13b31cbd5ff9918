"""The order of the page of results, and the words above its tables: what a record shows and what it does not."""

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Chapter:
    """A part of the page: the records whose file names match its patterns, in the order of the patterns, then of names."""

    title: str
    words: str
    patterns: tuple[str, ...]

    def of(self, names: Iterable[str]) -> list[str]:
        """Its records among these names."""
        found = {name: place for name in names for place, one in reversed(list(enumerate(self.patterns))) if fnmatchcase(name, one)}
        return sorted(found, key=lambda name: (found[name], name))


CHAPTERS = (
    Chapter(
        "Superpixels",
        "An image is cut into a given number of regions, and the regions are compared with human annotations. Good regions have "
        "boundaries where people drew some, and cross few of them.",
        ("superpixels", "superpixels*", "zones", "learned*", "encoder*"),
    ),
    Chapter(
        "Tokens",
        "Regions become the tokens of a Vision Transformer. These records are about the tokenizer itself: its features, its "
        "reconstructions, its counts and its cost.",
        ("tokenizers*", "tokenizer_quality", "residuals", "hyperparameters", "paper_counts", "low_resolution", "tokenizer*"),
    ),
    Chapter(
        "Models",
        "What models do with region tokens or with merged tokens: without training, after a short distillation, and trained. The "
        "models are tiny ones, and the paper's are small and base ones that were trained on all of ImageNet.",
        (
            "retrofit*",
            "top1*",
            "knn*",
            "probe*",
            "distill*",
            "scratch*",
            "finetune*",
            "train*",
            "recipes",
            "ablation*",
            "scale*",
            "positions*",
            "coarsen_5000",
            "coarsen",
            "coarsen_speed",
            "coarsen_schedules",
            "coarsen*",
            "tower_tokens",
            "tower_twins",
            "tower*",
            "onnx*",
            "efficiency",
            "overlap",
            "gpu_hours",
            "roofline",
            "device_code",
        ),
    ),
    Chapter(
        "Dense tasks",
        "Regions bring an output per token back to pixels: classes of a scene, salient objects, correspondences.",
        ("camvid*", "semantic*", "segment*", "oracle*", "salient*", "correspond*"),
    ),
    Chapter(
        "Vectors",
        "The same tree is traced into SVG files. Quality is that of the rendered file against the pixels that went in.",
        (
            "vectors",
            "vectors_release",
            "vectors_others",
            "icons*",
            "pages",
            "vectors_posters",
            "vectors_renderers",
            "programs",
            "vectors*",
        ),
    ),
    Chapter(
        "Selection", "Objects from a few clicks, and rough masks made sharp on the tree.", ("select_clicks", "select*", "snap*")
    ),
    Chapter("App", "Speed and memory of the demo, server and browser on one machine.", ("app*",)),
    Chapter(
        "Corpora",
        "Folders and shards of many images, and how the work spreads.",
        ("batch*", "corpus*", "corpora*", "huge", "scaling*"),
    ),
    Chapter(
        "Engineering",
        "Speed and memory of the library, the first minutes of a newcomer, and what the tests notice.",
        (
            "speed",
            "versions_speed",
            "speed*",
            "newcomer",
            "compiling",
            "test_time",
            "mutation",
            "random_order",
            "fuzz*",
            "faults",
            "training_kills",
            "soak",
            "release",
        ),
    ),
)
OTHERS = Chapter("Further records", "Records that no chapter above has claimed yet.", ("*",))

EQUAL_COMPUTE = (
    "Shows what is left of a model's accuracy, without training, at about half and at three tenths of its compute, by each way "
    "to spend less: a smaller input, fewer regions, merging between the blocks, and merging on top of regions."
)
# What a reader may and may not conclude. A record can bring its own words as "shows".
WORDS = {
    "superpixels": "Shows how well each method's regions fit human annotations at equal counts, and their CPU time. Does not show "
    "methods that need a graphics card or training on these annotations.",
    "superpixels_peers": "Shows third-party methods at one count of regions, by the same measures. ETPS is ahead of `relax=True` "
    'in recall and explained variation, with longer outlines and a higher undersegmentation error. `relax="detail"`, whose '
    "outlines are as long, is two standard errors ahead of it in recall, but ties with it on the photos that did not choose its "
    "settings, and in explained variation. CRS in RGB is ahead in both, but its 204 labels fall into some 6,900 connected pieces, "
    "so it is not a cut into 200 connected regions. No method is ahead in undersegmentation error or ASA; DISF comes nearest. It "
    "does not show SICLE with saliency maps or SH with contours.",
    "learned_encoder": "Shows that features which were learned from annotations of other images cut better than colours alone in "
    "the same tree: less undersegmentation error and more ASA. The price is explained variation, and recall as long as the cut is "
    "not relaxed. The list of settings was drawn up after a dozen shorter trials on the same 24 photos; one of them moved by "
    ".004 from one run to the next, so the order of near settings may be chance. It does not show the shipped encoder.",
    "tokenizers": "Shows what a patch model makes of every tokenizer's regions before it has learned from them. Square cells "
    "are what it knows, so a quadtree keeps more than any method with free shapes. It does not show what training makes of them.",
    "knn": "Shows how well features separate ten classes when a patch model with its own weights is given other tokens, or fewer. "
    "It does not show new photos: the model was pretrained on these.",
    "scratch": "Shows patches and regions from random weights under one short schedule, with the same images and seeds. 787 "
    "photos are far too few for a Vision Transformer, so it shows how learning begins and not where it ends.",
    "finetune": "Shows patches and regions fine-tuned from the same weights under one schedule of 49 steps. The weights were "
    "learned with patches, so patches have less to learn; the model has seen these photos before.",
    "ablations": "Shows the paper's ablations right after a retrofit. The start of λ, that of the authors' release, hides the "
    "background, so hardly any photo is recognised before training, and the rows differ in their counts of tokens alone.",
    "gpu_hours": "Estimates what the paper's own runs cost on two kinds of graphics cards, by arithmetic. Nothing was trained.",
    "roofline": "Estimates trees and cuts on four graphics cards, by arithmetic. Nothing has run on any of them, so the range "
    "between its columns is not a confidence interval.",
    "device_code": "Shows what compilers make of the kernels for graphics cards: registers, exact arithmetic, and bytes that are "
    "counted in an interpreter. It does not show speed.",
    "scale": "Shows accuracy at sizes that the model was not trained for, without training. On 30 photos only large differences "
    "count: 196 regions against the patches of 768 px is one, most others are ties. The paper's curve is that of trained models.",
    "tokenizer_quality": "Shows what the encoder that ships changes against plain Lab colours in the same tree. It does not show "
    "that learning is better: recall and explained variation gain, undersegmentation error and ASA do not.",
    "tokenizer_aggregation": "Shows which ways of averaging features train stably. It says nothing about accuracy.",
    "tokenizer_cost": "Shows the tokenizer's share of a ViT-S forward pass on this machine. A graphics card has another.",
    "tokenizer_paper": "Shows what the paper's preset costs next to the default on one thread. Its number of tokens depends on the "
    "image, and so do the later stages.",
    "hyperparameters": "Shows the paper's table of hyper-parameters after minutes of training instead of epochs. Counts of tokens "
    "differ between rows, so the errors are not at equal cost.",
    "paper_counts": "Shows which penalty gives the paper's mean count of tokens, which the paper does not state, and that trees "
    "that compare weighted aggregates, as the paper's algorithm says, and trees that compare means hardly differ without training.",
    "low_resolution": "Shows what is left of the advantage of regions when images shrink. The model was never trained on small "
    "images, so its accuracy there judges the images more than the tokens.",
    "residuals": "Shows which distribution the colours of a region's pixels have around the region's mean.",
    "retrofit": "Shows how much of a patch model's accuracy is left at the moment its patches are replaced by regions. It is the "
    "start of a training, not its result.",
    "top1_deit_tiny": EQUAL_COMPUTE,
    "top1_vit_tiny": EQUAL_COMPUTE,
    "distill": "Shows what one pass over 2,539 photos brings back, without labels. It is far from convergence.",
    "distill_longer": "Shows what four passes over the same photos bring beyond one, in one run of one student. The gain of "
    ".020 is small compared with the standard error of a share, .015, and nothing else was trained as long.",
    "distill_schedules": "Shows how the schedule of the distillation was chosen, in short runs on 200 held-out photos. The order "
    "of near rows may be chance.",
    "recipes": "Shows that the shipped recipes run to their end on a laptop, and what they reach there.",
    "coarsen_5000": "Shows accuracy at half and at three tenths of the compute, without any training, compared with other "
    "ways to merge. It does not show models that were trained with merging.",
    "coarsen": "The same on 1,000 photos, with more methods. Where it disagrees with 5,000 photos, it is the smaller sample.",
    "coarsen_speed": "Shows images per second on a CPU. ToMe's merging is cheaper than ours; its accuracy is in the tables above.",
    "coarsen_schedules": "Shows how each method's schedule was chosen, for ours and the others alike.",
    "tower_tokens": "Shows what tokens of two tiny towers keep of their features and of the class token's attention. It does not "
    "show what a language model answers with them.",
    "tower_twins": "Shows that the model of transformers and that of timm, with the same weights, merge the same tokens.",
    "onnx_runtime": "Shows that files give the outputs of the models, and which of the two runs them faster on a CPU.",
    "efficiency": "Shows speed against patch models on a CPU with random weights; accuracy plays no part.",
    "overlap": "Shows that data-loader workers can do the cutting. On two cores the images per second stay the same.",
    "camvid": "Shows the same tiny backbone with four kinds of tokens, after minutes of training on 100 images. It shows the order "
    "of the kinds, not the state of the art: decoders and larger models reach far more on CamVid.",
    "oracle": "Shows what no model can exceed that gives every region one class. It does not show that a model comes near it.",
    "salient": "Shows one method, TokenCut, on patches and on regions, with two tiny supervised models on small samples of the "
    "data sets. The paper's base models reach more; as published, TokenCut fails on these models.",
    "vectors": "Shows quality at budgets of paths and bytes on the five images that the paper took from DiffVG. That they are the "
    "same files and the same counts of paths as the paper's is likely and not certain.",
    "vectors_release": "Shows the raster-to-vector demo that the paper's authors released, with its default options, and both of "
    "our pipelines at its path counts. It does not show the drawings behind the paper's table, whose settings are not published.",
    "vectors_others": "Shows our lead over vtracer at equal bytes. It does not show that either looks better to people.",
    "icons": "Shows tracing of clean icons, compared with the original drawing at four times the size.",
    "pages": "Shows screenshots, charts and scans as people have them, traced at defaults (scans with the preset for them). Pages "
    "are generated and scans are simulated, so paper grain, folds and moiré are missing. It does not show icons or photographs.",
    "vectors_posters": "Shows how near the colours of posters are to the photo's. Ours mostly takes more bytes.",
    "vectors_renderers": "Shows that drawings have no gaps between shapes in two renderers.",
    "programs": "Shows how alike other programs draw the same file. LibreOffice moves lines by half a pixel of the screen.",
    "vectors_large": "Shows how bytes and time grow with the size of a photo.",
    "vectors_speed": "Shows seconds compared with vtracer's defaults, on one machine.",
    "select_clicks": "Shows simulated clicks on salient objects and pets, compared with two methods without a network. Learned "
    "interactive segmentation, such as SAM, is far better and is not in this table.",
    "select_snap": "Shows what snapping does to rough masks, and to masks that were right already, which it harms a little.",
    "app": "Shows times on a machine that draws in software; a graphics card makes frames faster.",
    "speed": "Shows time and memory of trees and cuts, compared with the usual superpixel methods, on one photo.",
    "zones": "Shows that drawn images are cut along their shapes. With as many regions as zones, the rims of anti-aliased shapes, "
    "as in the checkerboard, compete with the shapes for regions; the solid parts are recovered nevertheless. The spiral is a "
    "failure: a dark block next to its thin line makes a part of the line a blend, all of the line stops being a zone, and its "
    "pieces take the regions. Without the block or the line, all of it is recovered.",
    "versions_speed": "Compares the present sources with version 0.2.0, and nested cuts with OpenCV's SEEDS at its fastest: "
    "on RGB and without a second step. It is faster at 2048 px, probably because the arrays of our trees, about a hundred bytes "
    "per pixel, no longer fit into the processor's cache.",
    "newcomer": "Shows the first minutes after a clone on a busy machine.",
    "compiling": "Shows how much time all kernels take where they must be compiled; wheels for one platform contain their machine "
    "code.",
    "test_time": "Shows that all tests run within minutes on two cores, compiling the kernels included.",
    "mutation": "Shows which share of small changes to the sources makes a test fail.",
}

# Differences and their standard errors, by record: below two standard errors a difference is called a tie.
DIFFERENCES = {
    "ablations": ("lost", "paired"),
    "coarsen": ("lead", "error"),
    "coarsen_5000": ("lead", "error"),
    "finetune": ("lead", "lead_error"),
    "salient": ("gain", "gain_se"),
    "scratch": ("lead", "lead_error"),
}
