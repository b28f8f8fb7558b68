"""What an operator says of a tool beside its definition, in `{"picktools": {…}}` of its metadata."""

from collections.abc import Mapping
from typing import Any

HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
POLICY = ("safe", "safety", "allowed_roles", "modes", "capabilities", "cost", "untrusted")


def policy(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns the members that decide who may use a tool; another name or source is none of them."""
    return {key: value for key, value in ((metadata or {}).get("picktools") or {}).items() if key in POLICY}
