"""Tool selection and ranking for agents: the few tools a request needs, out of thousands, with a reason for every pick.

>>> import picktools
>>> catalog = picktools.Catalog.from_tools([
...     {"name": "get_forecast", "description": "Weather for the coming days", "parameters": {}},
...     {"name": "book_room", "description": "Books a meeting room", "parameters": {}},
... ])
>>> selection = picktools.Engine(catalog).pick("will it rain tomorrow?")
>>> selection.picks[0].tool.name
'get_forecast'
"""

from ._native import (
    Approvals,
    Call,
    CallResult,
    Catalog,
    Engine,
    Pick,
    Selection,
    Tool,
    Translation,
    __version__,
    check,
    evaluate,
    results,
)
from .errors import (
    ArgumentError,
    ArgumentTypeError,
    CatalogError,
    ForkedError,
    ModelError,
    PicktoolsError,
    SavedIndexError,
)

__all__ = [
    "Approvals",
    "ArgumentError",
    "ArgumentTypeError",
    "Call",
    "CallResult",
    "Catalog",
    "CatalogError",
    "Engine",
    "ForkedError",
    "ModelError",
    "Pick",
    "PicktoolsError",
    "SavedIndexError",
    "Selection",
    "Tool",
    "Translation",
    "__version__",
    "check",
    "evaluate",
    "results",
]
