"""Old module names: they work for one more release, with a DeprecationWarning."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

MODULES: dict[str, tuple[str, ...]] = {
    "batch": ("writing.batch",),
    "changes": ("writing.changes",),
    "checkpoints": ("models.checkpoints",),
    "client": ("serve.client",),
    "core.diff": ("trajectories.alignment",),
    "core.order_tax": ("trajectories.order_tax",),
    "core.policy": ("trajectories.policy",),
    "data.edits": ("data.pair_dataset",),
    "data.files": ("files",),
    "engines.driver": ("writing.driver",),
    "evals.report.origins": ("evals.report.provenance",),
    "evals.report.shown": ("evals.report.format",),
    "generate": ("writing.model", "writing.rollout", "writing.session"),
    "hub": ("models.hub",),
    "info": ("models.info",),
    "plans": ("writing.plan", "writing.tasks"),
    "serve.answers": ("serve.responses",),
    "serve.bodies": ("serve.schema",),
    "serve.desk": ("serve.queue",),
    "serve.gate": ("serve.middleware",),
    "serve.pump": ("serve.worker",),
    "train.parts": ("train.inputs",),
    "train.reading": ("train.yaml_reader",),
}
"""Old names, and the modules that have the names of each now; all within the package `reviser`."""


def moved_names(old: str, *modules: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module whose names are in other modules now."""

    def get(name: str) -> Any:
        # `from package import module` asks here first, and must not import the other modules.
        is_package = old in sys.modules and "__path__" in vars(sys.modules[old])
        is_own = name.startswith("__") or (is_package and find_spec(f"{old}.{name}"))
        for module in () if is_own else map(import_module, modules):
            if hasattr(module, name):
                new = f"{module.__name__}.{name}"
                warnings.warn(f"{old}.{name} is {new} now.", DeprecationWarning, stacklevel=2)
                return getattr(module, name)
        raise AttributeError(f"module {old!r} has no attribute {name!r}")

    return get


class _Finder(MetaPathFinder, Loader):
    """Finds modules by their old names."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002  # the import system passes it
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        package, _, name = fullname.partition(".")
        return ModuleSpec(fullname, self) if package == "reviser" and name in MODULES else None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        new = [f"reviser.{each}" for each in MODULES[name.removeprefix("reviser.")]]
        module.__dict__["__getattr__"] = moved_names(name, *new)


def install() -> None:
    """Let Python find the old names, after all modules that exist."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
