"""The live event stream of a run."""

import json
from typing import Any

import redis

from fleet.core.events import Event, EventType
from fleet.store.keys import Keys
from fleet.store.scripts import guarded


class Streams:
    """Reads events, gap-free and in order, from after an id on."""

    def __init__(self, client: "redis.Redis", keys: Keys) -> None:
        self._client = client
        self._keys = keys

    def read(self, run: str, after: str = "", *, wait: float = 0.0, limit: int = 500) -> list[Event]:
        """Events after the id `after`; waits up to `wait` seconds for the first."""
        rows = self._rows(self._keys.run(run, "events"), after or "0", wait, limit)
        return [event_of(id_, fields) for id_, fields in rows]

    def _rows(self, key: str, after: str, wait: float, limit: int) -> list[tuple[str, dict[str, str]]]:
        block = max(1, round(wait * 1000)) if wait > 0 else None
        found: Any = guarded(lambda: self._client.xread({key: after}, count=limit, block=block))
        return list(found.get(key, [[]])[0] if isinstance(found, dict) else (found[0][1] if found else []))

    def raw(self, run: str, after: str = "", limit: int = 500) -> list[tuple[str, str]]:
        """As read, each event as (id, its JSON): for filing, which needs no look into it."""
        rows = self._rows(self._keys.run(run, "events"), after or "0", 0.0, limit)
        return [(id_, _json_of(id_, fields)) for id_, fields in rows]

    def last(self, run: str) -> Event | None:
        """The newest event, or None where there is no live stream."""
        found: Any = guarded(lambda: self._client.xrevrange(self._keys.run(run, "events"), count=1))
        return event_of(*found[0]) if found else None

    def newest_end(self) -> str:
        """The id of the newest entry of the stream of ends; `0` while there is none."""
        found: Any = guarded(lambda: self._client.xrevrange(self._keys.ends, count=1))
        return str(found[0][0]) if found else "0"

    def ends(self, after: str, wait: float) -> tuple[str, set[str]]:
        """Runs that ended after that id, and the id to go on from; waits up to `wait` seconds for the first."""
        rows = self._rows(self._keys.ends, after, wait, 1000)
        return (rows[-1][0] if rows else after), {fields["run"] for _, fields in rows}

    def progress(self, run: str, step: str, text: str) -> None:
        """Tell whoever listens right now; kept nowhere."""
        channel = self._keys.run(run, "progress")
        guarded(lambda: self._client.publish(channel, json.dumps({"step": step, "text": text})))


def _json_of(id_: str, fields: dict[str, str]) -> str:
    """What event_of would give, as JSON without a detour."""
    kind, step, at, data = fields["e"].split(" ", 3)
    named = f',"step":"{step}"' if step != "-" else ""
    more = f',"data":{data}' if data else ""
    return f'{{"id":"{id_}","type":"{kind}","at":{int(at) / 1000}{named}{more}}}'


def event_of(id_: str, fields: dict[str, str]) -> Event:
    kind, step, at, data = fields["e"].split(" ", 3)
    return Event(
        id=id_,
        type=EventType(kind),
        at=int(at) / 1000,
        step="" if step == "-" else step,
        data=json.loads(data) if data else {},
    )
