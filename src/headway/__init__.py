"""Headway: train your own Transformer from the files you have, and serve it fast.

Public names are resolved on first use, so that `import headway` and every `--help` start at once, without torch.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headway.api import Model, evaluate, load, show, train

__version__ = "0.1.0"
__all__ = ["Model", "__version__", "evaluate", "load", "show", "train"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from headway import api

        return getattr(api, name)
    raise AttributeError(f"module 'headway' has no attribute {name!r}; it has {', '.join(__all__)}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
