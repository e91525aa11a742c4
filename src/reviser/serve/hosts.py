"""The names under which clients reach a server, as their Host header says them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from reviser.errors import ConfigError

LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")
"""The names of this machine for itself."""
_HEADER = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]]+)(:\d*)?")
"""A Host header in lower case: a name or an address, and maybe a port."""


def allowed_hosts(address: str, names: Iterable[str] = ()) -> list[str]:
    """Return the hosts that a server on this address accepts, with further names.

    A server on all networks cannot know its names: without any given, it accepts all.

    >>> allowed_hosts("10.0.0.5", ["reviser.example.org"])
    ['localhost', '127.0.0.1', '[::1]', '10.0.0.5', 'reviser.example.org']
    """
    names = list(names)
    for name in names:
        if "*" in name.removeprefix("*.") or "/" in name or name.rpartition(":")[2].isdigit():
            raise ConfigError(
                f"{name!r} is not a host name. Give one without a port, such as example.org, or"
                " *.example.org for all below it."
            )
    if address in ("", "0.0.0.0", "::"):
        return [*LOCAL_HOSTS, *names] if names else ["*"]
    own = f"[{address}]" if ":" in address else address
    return [*dict.fromkeys((*LOCAL_HOSTS, own, *names))]


def is_allowed(header: str, hosts: Iterable[str]) -> bool:
    """Return whether a Host header names one of these hosts; "*.example.org" is all below it.

    >>> is_allowed("LOCALHOST:8000", LOCAL_HOSTS), is_allowed("example.org", LOCAL_HOSTS)
    (True, False)
    """
    found = _HEADER.fullmatch(header.lower())
    name = found[1] if found else ""
    return bool(name) and any(
        name.endswith(host[1:]) if host.startswith("*.") else name == host
        for host in map(str.lower, hosts)
    )
