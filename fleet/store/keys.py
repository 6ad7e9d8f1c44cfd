"""Every Redis key of the fleet, in one table. `{ns}` is the namespace setting.

| key | type | holds | lifetime |
| --- | --- | --- | --- |
| {ns}:epoch | string | the epoch of this live state; SQL has the truth | none |
| {ns}:clock_offset | string | milliseconds that a simulated clock is ahead; never set in a fleet | none |
| {ns}:beat | string | beats counted; SQL has at most as many | none |
| {ns}:opening | string | the process that opens an epoch now | 60 s |
| {ns}:workers | zset | worker, until when its last heartbeat counts (ms) | pruned by heartbeats |
| {ns}:slots | hash | worker, "lanes slots" | pruned by heartbeats |
| {ns}:slots:<lane> | string | slots of all live workers that serve the lane | 4 heartbeats' lifetime |
| {ns}:lanes | set | lanes that workers ever served | none |
| {ns}:ready:<lane> | zset | "run step", order of claims | empty when idle |
| {ns}:told:<lane> | zset | "run step" of a message on its way, when it lapses (ms) | empty when idle |
| {ns}:leases:<lane> | zset | "run step", when the lease runs out (ms) | empty when idle |
| {ns}:timers | zset | "run step", when it is due (ms) | empty when idle |
| {ns}:cascades | set | runs with children still to release | empty when idle |
| {ns}:cancelling | set | runs that are being cancelled | empty when idle |
| {ns}:paused | set | runs that are paused | empty when idle |
| {ns}:shifting | set | runs whose ready steps are being held, or let go | empty when idle |
| {ns}:deadlines | zset | open runs with a deadline, the deadline (ms) | empty when idle |
| {ns}:open:<tenant> | set | open runs of a tenant | empty when idle |
| {ns}:ended | zset | runs whose events are to be filed in SQL, when they ended (ms) | empty when idle |
| {ns}:ends | stream | the last 10,000 runs that ended, for who waits | an hour after the last |
| {ns}:breaker:<name> | hash | state, until, first, failures | 10 windows |
| {ns}:leader | string | the scheduler that leads | seconds |
| {ns}:run:<id> | hash | `:status` and others, records, specs, pages of children (base.lua) | retention after the end |
| {ns}:run:<id>:outcomes | hash | step, its outcome as JSON | the same |
| {ns}:run:<id>:cascade | list | pages of children still to release | the same |
| {ns}:run:<id>:events | stream | events, ids `epoch-n` without a gap | the same |
"""


class Keys:
    """The names of the keys that Python reads or writes itself; the rest is only touched by scripts."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.epoch = f"{namespace}:epoch"
        self.clock_offset = f"{namespace}:clock_offset"
        self.beat = f"{namespace}:beat"
        self.opening = f"{namespace}:opening"
        self.workers = f"{namespace}:workers"
        self.slots = f"{namespace}:slots"
        self.lanes = f"{namespace}:lanes"
        self.cascades = f"{namespace}:cascades"
        self.cancelling = f"{namespace}:cancelling"
        self.paused = f"{namespace}:paused"
        self.shifting = f"{namespace}:shifting"
        self.deadlines = f"{namespace}:deadlines"
        self.ends = f"{namespace}:ends"
        self.ended = f"{namespace}:ended"
        self.leader = f"{namespace}:leader"

    def run(self, run: str, part: str = "") -> str:
        return f"{self.namespace}:run:{run}:{part}" if part else f"{self.namespace}:run:{run}"

    def open(self, tenant: str) -> str:
        return f"{self.namespace}:open:{tenant}"

    def ready(self, lane: str) -> str:
        return f"{self.namespace}:ready:{lane}"

    def leases(self, lane: str) -> str:
        return f"{self.namespace}:leases:{lane}"

    def breaker(self, name: str) -> str:
        return f"{self.namespace}:breaker:{name}"
