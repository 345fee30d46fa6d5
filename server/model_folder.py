"""Where the files of a model lie that a command names."""

from pathlib import Path

from huggingface_hub import snapshot_download
from huggingface_hub.errors import HFValidationError


class ModelFolderError(Exception):
    """A model that is neither a folder nor can be fetched."""


def model_folder(model: str) -> Path:
    """The model's folder; a name is looked up where transformers would find or fetch it.

    Raises ModelFolderError.
    """
    if Path(model).is_dir():
        return Path(model)
    try:
        return Path(
            snapshot_download(model, allow_patterns=["*.json", "*.jinja", "*.model", "*.safetensors"])
        )
    except (HFValidationError, OSError) as error:
        raise ModelFolderError(
            f"{model} is neither a folder nor a model that can be fetched: {error}"
        ) from error
