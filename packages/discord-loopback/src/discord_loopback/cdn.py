"""The files of messages and commands, at signed addresses that expire."""

from __future__ import annotations

import hashlib
import hmac
from datetime import timedelta
from urllib.parse import quote

from .clock import VirtualClock
from .errors import Json, Refusal
from .state import Attachment

LIFETIME = timedelta(hours=24)
_KEY = b"the loopback's own"


class Cdn:
    """Keeps every file and hands it out to who has an address that is still good."""

    def __init__(self, clock: VirtualClock) -> None:
        self.base = ""
        self._clock = clock
        self._files: dict[int, Attachment] = {}

    def keep(self, attachment: Attachment) -> None:
        """Take a file in."""
        self._files[attachment.id] = attachment

    def url(self, attachment: Attachment) -> str:
        """An address that is good for a day."""
        folder = "ephemeral-attachments" if attachment.ephemeral else "attachments"
        path = f"/{folder}/{attachment.channel_id}/{attachment.id}/{quote(attachment.filename)}"
        expires = format(int((self._clock.now() + LIFETIME).timestamp()), "x")
        return f"{self.base}{path}?ex={expires}&hm={self._sign(attachment.id, expires)}&"

    def read(self, attachment_id: int, expires: str, signature: str) -> Attachment:
        """The file at an address.

        Raises:
            Refusal: The address is not one that was given out, or it has expired.
        """
        attachment = self._files.get(attachment_id)
        good = hmac.compare_digest(signature, self._sign(attachment_id, expires))
        if attachment is None or not good or int(expires, 16) < self._clock.now().timestamp():
            raise Refusal(404, 0, "This content is no longer available.")
        return attachment

    def attachment_json(self, attachment: Attachment) -> Json:
        """A file as messages and commands tell of it."""
        url = self.url(attachment)
        return {
            "id": str(attachment.id),
            "filename": attachment.filename,
            "size": len(attachment.data),
            "url": url,
            "proxy_url": url,
            "content_type": attachment.content_type,
            "ephemeral": attachment.ephemeral,
            "description": attachment.description,
        }

    def _sign(self, attachment_id: int, expires: str) -> str:
        return hmac.new(_KEY, f"{attachment_id}:{expires}".encode(), hashlib.sha256).hexdigest()
