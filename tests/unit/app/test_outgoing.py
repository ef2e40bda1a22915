"""Which hosts the server may be sent to."""

from __future__ import annotations

import ipaddress
import socket

import pytest

from kernelcup.app.outgoing import addresses_of
from kernelcup.errors import InvalidValue

OWN = """\
127.0.0.1 10.1.2.3 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 0.0.0.0 224.0.0.1
240.0.0.1 255.255.255.255 ::1 :: fe80::1%eth0 fd00::1 ff02::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1
2002:7f00:1::1 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 64:ff9b:1::7f00:1 64:ff9b:1::5db8:d70e
fec0::1 ::7f00:1 ::ffff:0:7f00:1 ::ffff:0:5db8:d70e 3fff::1 3fff:fff::1 5f00::1
192.88.99.1 ::ffff:192.88.99.1 64:ff9b::c058:6301 192.0.0.9 198.18.0.1 203.0.113.1
2002:5db8:d70e::1 2001:0:5db8:d70e::1 2001:10::1 2001:db8::1 100::1 100:0:0:1::1 1::1 4000::1 e000::1
""".split()
PUBLIC = """\
93.184.215.14 192.88.98.255 192.88.100.0 2606:2800:21f:cb07:6820:80da:af6b:8b2c 2001:200::1 2620:4f:8000::1
64:ff9b::5db8:d70e ::ffff:5db8:d70e
""".split()


def resolving_to(*addresses: str):
    def resolve(_host: str, port: int, **_options: object) -> list[tuple[object, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    return resolve


@pytest.mark.parametrize("address", OWN)
def test_an_address_of_the_servers_own_network_is_refused(address: str) -> None:
    with pytest.raises(InvalidValue, match="not a host on the public internet"):
        addresses_of("example.org", 443, what="It", resolve=resolving_to(address))


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_what_a_request_goes_to(address: str) -> None:
    assert addresses_of("example.org", 443, what="It", resolve=resolving_to(address)) == [address]


def test_one_private_address_among_public_ones_is_enough_to_refuse() -> None:
    with pytest.raises(InvalidValue):
        addresses_of("example.org", 443, what="It", resolve=resolving_to(PUBLIC[0], "10.0.0.1"))


@pytest.mark.parametrize("host", ["127.1", "2130706433", "0x7f.1", "localhost"])
def test_other_spellings_of_this_machine_are_refused(host: str) -> None:
    with pytest.raises(InvalidValue):
        addresses_of(host, 443, what="It")


def test_a_network_that_is_configured_is_allowed_and_no_other() -> None:
    own = [ipaddress.ip_network("127.0.0.0/8")]
    for address in ("127.0.0.1", "::ffff:127.0.0.1"):
        found = addresses_of("a", 80, what="It", resolve=resolving_to(address), own_networks=own)
        assert found == [address]
    with pytest.raises(InvalidValue):
        addresses_of("a", 80, what="It", resolve=resolving_to("10.0.0.1"), own_networks=own)
