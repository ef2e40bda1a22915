"""Addresses in the compose files of ``deploy/``.

Docker gives a service without an address the first free one of the network's ``ip_range``, or of the whole subnet if
there is none, in the order in which services start: a fixed address in there is another service's by then.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

DEPLOY = Path(__file__).parents[2] / "deploy"


def read(text: str | Path) -> dict[str, Any]:
    content: dict[str, Any] = YAML(typ="safe").load(text)
    return content


def fixed(content: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield service, network and address of each fixed address."""
    for name, service in content["services"].items():
        networks = service.get("networks", [])
        for network, settings in networks.items() if isinstance(networks, dict) else ():
            for key in ("ipv4_address", "ipv6_address"):
                if key in (settings or {}):
                    yield name, network, settings[key]


def faults(content: dict[str, Any]) -> list[str]:
    """Return the fixed addresses that another service may have, or that lie in no subnet."""
    found = []
    for name, network, text in fixed(content):
        address = ip_address(text)
        pools = content["networks"][network]["ipam"]["config"]
        mine = [pool for pool in pools if address in ip_network(pool["subnet"])]
        if not mine:
            found.append(f"{name}: {text} lies in no subnet of {network}")
        for pool in mine:
            if address in ip_network(pool.get("ip_range", pool["subnet"])):
                found.append(f"{name}: {text} lies in the range of which Docker gives addresses")
            if text == pool.get("gateway"):
                found.append(f"{name}: {text} is the gateway")
    return found


@pytest.mark.parametrize("file", sorted(DEPLOY.rglob("*.y*ml")), ids=lambda file: str(file.name))
def test_no_fixed_address_lies_where_docker_gives_addresses(file: Path) -> None:
    assert faults(read(file)) == []


@pytest.mark.parametrize(
    ("pool", "fault"),
    [
        ("subnet: 10.9.0.0/24", "range of which"),
        ("subnet: 10.9.0.0/24, gateway: 10.9.0.1, ip_range: 10.9.0.0/28", "range of which"),
        ("subnet: 10.9.0.0/24, gateway: 10.9.0.2, ip_range: 10.9.0.128/25", "gateway"),
        ("subnet: 10.8.0.0/24, ip_range: 10.8.0.128/25", "no subnet"),
    ],
)
def test_a_fixed_address_that_another_may_have_is_found(pool: str, fault: str) -> None:
    (found,) = faults(
        read(
            f"services: {{a: {{}}, b: {{networks: {{n: {{ipv4_address: 10.9.0.2}}}}}}}}\n"
            f"networks: {{n: {{ipam: {{config: [{{{pool}}}]}}}}}}\n"
        )
    )
    assert fault in found


def test_the_server_trusts_the_address_that_the_proxy_has() -> None:
    addresses = [text for name, _, text in fixed(read(DEPLOY / "compose.yaml")) if name == "proxy"]
    config = tomllib.loads((DEPLOY / "kernelcup.toml").read_text())
    assert config["server"]["trusted_proxies"] == addresses
