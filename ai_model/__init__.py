"""The Python client of the ai-model registry.

>>> from ai_model import Registry
>>> with Registry() as registry:
...     registry.push("checkpoint.safetensors", "resnet50", "v2.3")
...     encoder = registry.load("resnet50", "v2.3", layers="encoder")

Must not import the service's packages, nor numpy or torch before they are needed.
"""

from ai_model import errors
from ai_model.config import Config, load_config
from ai_model.errors import AiModelError
from ai_model.progress import OnProgress, Progress
from ai_model.registry import Registry
from ai_model.results import GetResult, GotFile, PushedFile, PushResult, VerifyResult

__all__ = [
    "AiModelError",
    "Config",
    "GetResult",
    "GotFile",
    "OnProgress",
    "Progress",
    "PushResult",
    "PushedFile",
    "Registry",
    "VerifyResult",
    "errors",
    "load_config",
]
