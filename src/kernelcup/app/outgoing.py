"""Restrict this server's requests to hosts on the public internet and configured networks."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Sequence
from typing import Any

from kernelcup.errors import InvalidValue

Resolve = Callable[..., Sequence[tuple[Any, ...]]]
"""The signature of :func:`socket.getaddrinfo`."""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")
"""NAT64, with an IPv4 address in the last 32 bits."""
_UNICAST = ipaddress.IPv6Network("2000::/3")
"""All that IANA gives out of IPv6 for the public internet."""
_NOT_GLOBAL = tuple(
    map(
        ipaddress.ip_network,
        (
            "192.0.0.0/24",  # IETF protocol assignments
            "192.88.99.0/24",  # relays of 6to4
            "2001::/23",  # IETF protocol assignments, Teredo among them
            "2002::/16",  # 6to4, with an IPv4 address
            "3fff::/20",  # documentation
        ),
    )
)
"""What IANA's registries of special-purpose addresses do not call global, though some versions of Python do."""


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
    """Return whether an address is on the public internet; one that carries an IPv4 address counts as that one."""
    address = _plain(address)
    if address.version == 6 and address in _TRANSLATED:
        address = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    if address.is_multicast or not address.is_global or is_inside(address, _NOT_GLOBAL):
        return False
    return address.version == 4 or address in _UNICAST


def is_inside(address: Address, networks: Sequence[Network]) -> bool:
    """Return whether an address belongs to one of the networks; a mapped address counts as its IPv4 address."""
    plain = _plain(address)
    return any(plain.version == network.version and plain in network for network in networks)


def _plain(address: Address) -> Address:
    return address.ipv4_mapped or address if isinstance(address, ipaddress.IPv6Address) else address
