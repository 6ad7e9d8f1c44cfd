"""Writes docs/configuration.md from the settings themselves: `python docs/settings_table.py`. A test says when to."""

import typing
from pathlib import Path

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from fleet.settings import PREFIX, Settings

TARGET = Path(__file__).parent / "configuration.md"

HEAD = """\
# Settings

Written by `python docs/settings_table.py` from `fleet/settings.py`.

A flag wins over a `FLEET_` variable, that over `.env`, that over `fleet.toml`, that over the default. Both files are
read from the working directory. In `fleet.toml` a name stands without `FLEET_` and in small letters. A name that does
not exist is refused. `fleet config show --sources` prints every value in force and its source, secrets masked.

A secret can be given as a file that holds it: `FLEET_MODEL_KEY_FILE=/run/secrets/key`.

| variable | kind | default | what it is |
| --- | --- | --- | --- |
"""
KINDS = {"str": "text", "bool": "yes or no", "int": "whole number", "float": "number", "Path": "path"}


def document() -> str:
    """The text of docs/configuration.md."""
    rows = (_row(name, field) for name, field in Settings.model_fields.items())
    return HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _row(name: str, field: FieldInfo) -> tuple[str, ...]:
    default = "" if field.default in (None, "") else f"`{field.default}`"
    patterns = [each.pattern for each in field.metadata if getattr(each, "pattern", None)]
    words = patterns[0].strip("^$()").split("|") if patterns and "(" in patterns[0] else []
    choices = f" ({', '.join(words)})" if words else ""
    return f"`{PREFIX}{name.upper()}`", _kind(field), default, (field.description or "") + choices


def _kind(field: FieldInfo) -> str:
    plain = next(each for each in typing.get_args(field.annotation) or (field.annotation,) if each is not type(None))
    if plain is SecretStr:
        return "secret"
    return KINDS.get(getattr(plain, "__name__", ""), "text")


if __name__ == "__main__":
    TARGET.write_text(document())
