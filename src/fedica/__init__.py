"""fedica: one-shot robust federated independent component analysis.

The public names stand in `fedica.public`. They are loaded when one is first used: ``fedica --help`` need not wait for
scikit-learn.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedica.version import __version__ as __version__

if TYPE_CHECKING:
    from fedica.public import *  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        public = {} if name.startswith("_") and name != "__all__" else vars(import_module(f"{__name__}.public"))
        if name == "__all__":
            return sorted(["__version__", *(name for name in public if not name.startswith("_"))])
        if name not in public:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return public[name]

    def __dir__() -> list[str]:
        return sorted({*globals(), *__getattr__("__all__")})
