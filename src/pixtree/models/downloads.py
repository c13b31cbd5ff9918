"""Check within seconds that weights can be downloaded: without a network, libraries retry for minutes."""

import os
from importlib import import_module
from threading import Thread
from typing import Any

from pixtree.models.timm_import import timm

SECONDS = 4.0  # for an answer of any kind
FILES = ("model.safetensors", "open_clip_model.safetensors", "open_clip_pytorch_model.bin", "pytorch_model.bin")


def check_download(name: str) -> None:
    """Raise ConnectionError within seconds if timm would download the weights of a model and the hub does not answer."""
    repository = _repository(name)
    if repository is None or _is_cached(repository) or _answers():
        return
    raise ConnectionError(
        f"the weights of {name} come from {repository} on the Hugging Face Hub, which does not answer; connect, or give a file "
        "of weights as pretrained_cfg_overlay={'file': ...}"
    )


def _repository(name: str) -> str | None:
    """The repository of a model's weights; None if timm has them elsewhere."""
    if name.startswith(("hf-hub:", "hf_hub:")):
        return name.partition(":")[2].partition("@")[0]
    config: Any = None if name.startswith("local-dir:") else timm.get_pretrained_cfg(name)
    found = None if config is None or config.file else config.hf_hub_id
    if found == "timm/":  # the name belongs to it
        return f"timm/{config.architecture}{'.' + config.tag if config.tag else ''}"
    return None if found is None else str(found)


def _is_cached(repository: str) -> bool:
    from huggingface_hub import try_to_load_from_cache

    return any(isinstance(try_to_load_from_cache(repository, file), str) for file in FILES)


def _answers() -> bool:
    """Whether the hub answers at all; resolving its name can hang longer than any timeout, so a thread waits."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        return False
    found: list[bool] = []

    def ask() -> None:
        hub: Any = import_module("huggingface_hub")

        try:
            hub.utils.get_session().head(hub.constants.ENDPOINT, timeout=SECONDS)
            found.append(True)
        except Exception:  # of whichever library makes the connection
            found.append(False)

    asking = Thread(target=ask, daemon=True)
    asking.start()
    asking.join(SECONDS)
    return bool(found) and found[0]
