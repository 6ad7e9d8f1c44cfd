"""Big values, kept in a folder and named by their content."""

import hashlib
import os
import tempfile
from pathlib import Path

from fleet.core.outcome import Artifact
from fleet.errors import StoreUnreachable

PREVIEW = 200


class ArtifactLost(StoreUnreachable):
    """An artifact's file is not there, or not whole."""


class Artifacts:
    """`sha256:<hex>` names a file; the same content is kept once. All workers must see the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, content: bytes | Path) -> Artifact:
        """Keep bytes, or a file's bytes. A reader never sees a part of them."""
        body = content.read_bytes() if isinstance(content, Path) else content
        digest = hashlib.sha256(body).hexdigest()
        target = self._path(digest)
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=target.parent)
            with os.fdopen(handle, "wb") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(target)
        return Artifact(ref=f"sha256:{digest}", size=len(body), preview=body[:PREVIEW].decode(errors="replace"))

    def get(self, artifact: Artifact) -> bytes:
        """Its bytes, checked against its name. Raises ArtifactLost when they are not there or not whole."""
        digest = artifact.ref.removeprefix("sha256:")
        try:
            body = self._path(digest).read_bytes()
        except OSError as missing:
            raise ArtifactLost(f"artifact {artifact.ref} can't be read: {missing.strerror}") from None
        if hashlib.sha256(body).hexdigest() != digest:
            raise ArtifactLost(f"artifact {artifact.ref} is damaged")
        return body

    def _path(self, digest: str) -> Path:
        if len(digest) != 64 or not digest.isalnum():
            raise ArtifactLost(f"sha256:{digest[:70]} is no artifact's name")
        return self._folder / digest[:2] / digest[2:]
