"""Restrict this server's requests to hosts on the public internet and configured networks."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kernelcup.errors import InvalidValue

Resolve = Callable[..., Sequence[tuple[Any, ...]]]
"""The signature of :func:`socket.getaddrinfo`."""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")
"""NAT64, with an IPv4 address in the last 32 bits."""
_PRIVATE = tuple(
    map(
        ipaddress.IPv6Network,
        (
            "::/96",  # IPv4-compatible
            "::ffff:0:0:0/96",  # IPv4-translated
            "64:ff9b:1::/48",  # NAT64 within a network
            "fec0::/10",  # site-local
            "3fff::/20",  # documentation
            "5f00::/16",  # segment routing within a network
        ),
    )
)
"""Not on the public internet, though :mod:`ipaddress` takes them for global."""


def addresses_of(
    host: str,
    port: int,
    *,
    what: str,
    resolve: Resolve = socket.getaddrinfo,
    own_networks: Sequence[Network] = (),
) -> list[str]:
    """Return the addresses of a host, all of which are allowed. A request has to go to one of them.

    Args:
        host: Its name or address.
        port: Its port.
        what: The beginning of the error's text, for example "Webhook 'https://...'".
        resolve: Resolves names.
        own_networks: Private networks that are allowed.

    Raises:
        InvalidValue: The host has no address, or one that is not public.
    """
    try:
        found = resolve(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        found = ()
    if not found:
        raise InvalidValue(
            f"{what}: this server finds no address for the host {host}; check its "
            "spelling, and try again later if it is right."
        )
    addresses = list(dict.fromkeys(str(address[0]) for *_, address in found))
    for address in map(ipaddress.ip_address, addresses):
        if not (is_public(address) or is_inside(address, own_networks)):
            raise InvalidValue(f"{what}: {host} is not a host on the public internet.")
    return addresses


def is_public(address: Address) -> bool:
    """Return whether an address is on the public internet, including every IPv4 address embedded in it."""
    if any(address.version == 6 and address in network for network in _PRIVATE):
        return False
    return all(each.is_global and not each.is_multicast for each in (address, *_wrapped(address)))


def is_inside(address: Address, networks: Sequence[Network]) -> bool:
    """Return whether an address belongs to one of the networks; a mapped address counts as its IPv4 address."""
    plain = address.ipv4_mapped or address if isinstance(address, ipaddress.IPv6Address) else address
    return any(plain.version == network.version and plain in network for network in networks)


def _wrapped(address: Address) -> Iterator[Address]:
    if isinstance(address, ipaddress.IPv4Address):
        return
    candidates = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in _TRANSLATED:
        candidates.append(ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF))
    yield from (each for each in candidates if each is not None)
