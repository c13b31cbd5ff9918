"""A LLaVA-style model reads 192 visual tokens instead of 576: `python examples/fewer_visual_tokens.py`.

It needs pixtree[transformers]. The model is tiny and random, so its words mean nothing; its classes are those of real models.
"""

import tokenizers
import torch
import transformers
from skimage.data import astronaut

import pixtree
from pixtree.models import tower_of

SIDE, PATCH, PATCHES, TOKENS = 336, 14, 576, 192
WORDS = ["<unk>", "</s>", "<image>", "USER:", "What", "is", "this?", "ASSISTANT:"]
SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 2}

torch.manual_seed(0)
model = transformers.LlavaForConditionalGeneration(
    transformers.LlavaConfig(
        vision_config=transformers.CLIPVisionConfig(**SIZES, image_size=SIDE, patch_size=PATCH),
        text_config=transformers.LlamaConfig(**SIZES, vocab_size=len(WORDS), bos_token_id=0, eos_token_id=1),
        image_token_id=WORDS.index("<image>"),
    )
).eval()
words = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
words.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>", pad_token="</s>")
tokenizer.add_special_tokens({"additional_special_tokens": ["<image>"]})
reader = transformers.CLIPImageProcessor(size={"shortest_edge": SIDE}, crop_size={"height": SIDE, "width": SIDE})
processor = transformers.LlavaProcessor(reader, tokenizer, patch_size=PATCH, vision_feature_select_strategy="default")

for pool in ("patches", "tree", "regions"):
    count = PATCHES if pool == "patches" else TOKENS
    fast = model if pool == "patches" else pixtree.coarsen(model, final_tokens=TOKENS, pool=pool)
    # Placeholders in the text: the processor adds this number to that of patches, of which it takes one for the class token.
    processor.num_additional_image_tokens = 1 + count - PATCHES
    inputs = processor(images=astronaut(), text="USER: <image> What is this? ASSISTANT:", return_tensors="pt")
    placeholders = int((inputs.input_ids == model.config.image_token_id).sum())
    made = fast.generate(**inputs, max_new_tokens=4, min_new_tokens=4, do_sample=False)
    print(f"{pool}: {placeholders} visual tokens, {made.shape[1] - inputs.input_ids.shape[1]} new words")
    if pool != "patches":
        found = tower_of(fast).visual_tokens(inputs.pixel_values)
        print(f"  {found}, sizes {found.sizes.min():.1f} to {found.sizes.max():.1f} patches")
