"""Secrets that tools may read: a folder with one file a secret. What was handed out never shows in a failure's text."""

from pathlib import Path

from fleet.core.outcome import Failure

MASK = "***"


class Secrets:
    """One for each attempt, so that it knows which secrets that attempt has seen."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._seen: set[str] = set()

    def get(self, name: str) -> str:
        """The secret of that name. Raises KeyError where there is none."""
        if self._folder is None or not name.replace("_", "").replace("-", "").isalnum():
            raise KeyError(f"there is no secret {name!r}: put it in the folder that FLEET_SECRETS names")
        try:
            value = (self._folder / name).read_text().strip()
        except OSError:
            raise KeyError(f"there is no secret {name!r} in the folder that FLEET_SECRETS names") from None
        self._seen.add(value)
        return value

    def hidden(self, text: str) -> str:
        """The text without the secrets that were handed out."""
        for value in self._seen:
            if value:
                text = text.replace(value, MASK)
        return text

    def masked(self, failure: Failure) -> Failure:
        message = self.hidden(failure.message)
        return failure if message == failure.message else failure.model_copy(update={"message": message})
