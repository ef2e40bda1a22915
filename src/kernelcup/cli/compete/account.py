"""Words of ``kernelcup account``: the bell, shown names, the export of a user's data, and deleting the account."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from kernelcup.app import personal_data
from kernelcup.app.news import bell
from kernelcup.app.operation import Archive
from kernelcup.app.people import accounts
from kernelcup.cli.admin.users import describe_user, user_object
from kernelcup.cli.operations import Answer, commands_of, say
from kernelcup.errors import Conflict

commands = partial(commands_of, "account")


def saved(answer: Answer) -> dict[str, object]:
    """Write the export of an account to a new file in the current folder. Raise ``Conflict`` if there is one."""
    return write_archive(f"{answer.given['name']}.zip", answer.value)


def write_archive(name: str, archive: Archive) -> dict[str, object]:
    """Write a zip to a new file in the current folder. Raise ``Conflict`` if there is one."""
    file, content = Path(name), b"".join(archive.parts)
    try:
        file.touch(mode=0o600, exist_ok=False)
    except FileExistsError as error:
        raise Conflict(f"{file} is there already; nothing was written.") from error
    return {"file": str(file), "bytes": file.write_bytes(content)}


def bell_lines(answer: Answer) -> list[str]:
    """Return what concerns a user, a line each; what is new has a star."""
    return [
        f"{'*' if each.id > answer.value.read else ' '} {each.at:%Y-%m-%d %H:%M} UTC  {each.text}"
        for each in answer.value.items
    ] or ["Nothing yet."]


say(bell.show_bell, bell_lines)
say(personal_data.export_account, lambda answer: "{file}: {bytes:,} bytes".format(**saved(answer)), saved)
say(
    accounts.set_shown_name,
    lambda answer: describe_user(answer.value),
    lambda answer: user_object(answer.value),
)
say(
    personal_data.delete_account,
    lambda answer: f"the account is deleted; its results stay as {answer.value.name}",
    lambda answer: {"deleted": answer.given["name"], "pseudonym": answer.value.name},
)
