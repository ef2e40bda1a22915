"""Requests of this server to others, only to checked addresses."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

import httpx

from kernelcup import __version__
from kernelcup.app.news.delivery import DeliveryFailed
from kernelcup.client.core import trusted

WHOLE_S = 10.0
"""For connecting, sending and the head of the answer together."""


class HttpSender:
    """Posts with httpx. Proxies of the environment are not used: they would look the name up again."""

    def __init__(self, *, whole_s: float = WHOLE_S) -> None:
        self._whole_s = whole_s

    def post(self, url: str, addresses: Sequence[str], headers: Mapping[str, str], body: bytes) -> int:
        """Send to the first address that accepts a connection. Raise ``DeliveryFailed``."""
        try:
            return asyncio.run(self._within(url, addresses, headers, body))
        except TimeoutError:
            raise DeliveryFailed(f"it did not answer within {self._whole_s:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, OSError) as error:
            raise DeliveryFailed(str(error) or type(error).__name__) from error

    async def _within(
        self, url: str, addresses: Sequence[str], headers: Mapping[str, str], body: bytes
    ) -> int:
        verify = trusted(reads_environment=False)
        async with (
            asyncio.timeout(self._whole_s),
            httpx.AsyncClient(
                trust_env=False, follow_redirects=False, timeout=self._whole_s, verify=verify
            ) as client,
        ):
            for address in addresses[:-1]:
                try:
                    return await _post(client, url, address, headers, body)
                except httpx.ConnectError:
                    continue
            return await _post(client, url, addresses[-1], headers, body)


async def _post(
    client: httpx.AsyncClient, url: str, address: str, headers: Mapping[str, str], body: bytes
) -> int:
    """Send to an address as to the host of the URL; the answer's body is not read."""
    parts = urlsplit(url)
    named = {"Host": parts.netloc, "User-Agent": f"KernelCup/{__version__}", **headers}
    request = client.build_request(
        "POST",
        httpx.URL(url).copy_with(host=address),
        content=body,
        headers=named,
        extensions={"sni_hostname": parts.hostname or ""},
    )
    answer = await client.send(request, stream=True)
    await answer.aclose()
    return answer.status_code
