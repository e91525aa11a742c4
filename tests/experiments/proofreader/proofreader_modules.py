"""Open the modules of the proofreader experiment.

They are scripts beside each other with plain names, and other folders on the path of the tests
have modules of the same names. So they are imported with their folder first on the path, and
neither the path nor the names are left behind.
"""

import importlib
import sys
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parents[3] / "experiments/proofreader"
NAMES = [path.stem for path in FOLDER.glob("*.py")]
_opened: dict[str, ModuleType] = {}


def opened(name: str) -> ModuleType:
    """Return a module of the experiment."""
    if name in _opened:
        return _opened[name]
    hidden = {other: sys.modules.pop(other) for other in NAMES if other in sys.modules}
    sys.modules.update(_opened)
    sys.path.insert(0, str(FOLDER))
    try:
        importlib.import_module(name)
    finally:
        sys.path.remove(str(FOLDER))
        _opened.update({n: sys.modules.pop(n) for n in NAMES if n in sys.modules})
        sys.modules.update(hidden)
    return _opened[name]
