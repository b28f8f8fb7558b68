"""The policy of a tool in the member `picktools` of its metadata."""

from collections.abc import Mapping
from typing import Any

HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
POLICY = ("safe", "safety", "allowed_roles", "modes", "capabilities", "cost", "untrusted")


def policy(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns the members that control the access to a tool. Other members, such as names, are ignored."""
    return {key: value for key, value in ((metadata or {}).get("picktools") or {}).items() if key in POLICY}
