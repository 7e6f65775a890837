"""Headway: train your own Transformer from the files you have, and serve it fast.

Public names are resolved on first use, so that `import headway` and every `--help` start at once, without torch.
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headway.api import evaluate, load, show, train
    from headway.generate.model import Model

__version__ = "0.1.0"
__all__ = ["Model", "__version__", "evaluate", "load", "show", "train"]


class Package(ModuleType):
    """`headway.train` and `headway.evaluate` are functions and rooms. The names mean the functions, always: Python
    would rebind them to the rooms as soon as anything in there is imported. The rooms are imported by `from` alone.
    """

    def __getattr__(self, name: str) -> Any:
        if name in __all__:
            from headway import api

            return getattr(api, name)
        raise AttributeError(f"module 'headway' has no attribute {name!r}; it has {', '.join(__all__)}")

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in __all__ and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})


sys.modules[__name__].__class__ = Package
