"""The names under which clients reach a server, as their Host header says them."""

from __future__ import annotations

from collections.abc import Iterable

from reviser.errors import ConfigError

LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")
"""The names of this machine for itself."""


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
