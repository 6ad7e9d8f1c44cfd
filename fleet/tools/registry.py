"""Which tools there are, by name, and where they came from."""

import difflib
import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType

from fleet.core.tool import ToolSpec
from fleet.errors import BadSetting, UnknownTool
from fleet.settings import Settings
from fleet.tools.tool import Tool

GROUP = "fleet.tools"
BUILTINS = tuple(f"fleet.tools.builtin.{name}" for name in ("calc", "extract", "fetch", "model", "pick", "summarise"))


class Registry:
    """Tools by name. Each name is had once; a second tool of that name is refused, however it arrives."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        self._origins: dict[str, str] = {}
        for tool in tools:
            self.register(tool)

    @classmethod
    def configured(cls, settings: Settings) -> "Registry":
        """The registry that the settings `tools`, `documents` and `data` ask for. Raises BadSetting."""
        modules = [each.strip() for each in settings.tools.split(",") if each.strip()]
        return cls.load(modules, documents=settings.documents, data=settings.data, builtins=settings.builtins)

    @classmethod
    def load(
        cls,
        modules: Sequence[str] = (),
        *,
        documents: Path | None = None,
        data: Path = Path(".fleet"),
        builtins: bool = True,
    ) -> "Registry":
        """Built-in tools, then those of installed packages (entry points `fleet.tools`), then those of `modules`.

        modules: dotted names, or paths that end in .py; each Tool at a module's top level is registered. documents: the
        folder for search and read, whose index is kept in the folder `data`. Raises BadSetting, which names the module
        and the cause when one can't be imported, or both origins when two tools have one name.
        """
        registry = cls()
        for name in BUILTINS if builtins else ():
            registry._register_all(importlib.import_module(name), name)
        if documents is not None:
            registry._register_documents(documents, data)
        for point in sorted(entry_points(group=GROUP), key=lambda each: each.name):
            registry._register_point(point)
        for name in modules:
            registry._register_all(_imported(name), name)
        return registry

    def register(self, tool: Tool, origin: str = "") -> None:
        """Add a tool. origin: where it came from, for people. Raises BadSetting if another tool has its name."""
        name = tool.spec.name
        origin = origin or getattr(getattr(tool, "function", tool.call), "__module__", "") or "an unnamed module"
        known = self._tools.get(name)
        if known is tool:
            return
        if known is not None:
            raise BadSetting(
                f'two tools are named "{name}": one from {self._origins[name]}, one from {origin}; rename one of them'
            )
        self._tools[name] = tool
        self._origins[name] = origin

    def get(self, name: str) -> Tool:
        """The tool of that name. Raises UnknownTool, which suggests the closest name and lists all."""
        try:
            return self._tools[name]
        except KeyError:
            close = difflib.get_close_matches(name, self._tools, n=1)
            hint = f' Did you mean "{close[0]}"?' if close else ""
            listed = ", ".join(sorted(self._tools)) or "none"
            raise UnknownTool(f'there is no tool "{name[:64]}".{hint} There are: {listed}') from None

    def specs(self, names: Sequence[str] = ()) -> tuple[ToolSpec, ...]:
        """The specs of the tools of these names, in their order; of all tools, by name, if none is given."""
        return tuple(self.get(name).spec for name in names or sorted(self._tools))

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def _register_all(self, module: ModuleType, origin: str) -> None:
        for tool in vars(module).values():
            if isinstance(tool, Tool):
                self.register(tool, origin)

    def _register_documents(self, documents: Path, data: Path) -> None:
        from fleet.tools.builtin.search import document_tools  # noqa: PLC0415 - only where there are documents

        folder = documents.resolve()
        if not folder.is_dir():
            raise BadSetting(f"documents: {documents} is not a folder")
        digest = hashlib.sha256(str(folder).encode()).hexdigest()[:12]
        for tool in document_tools(folder, data / f"documents-{digest}.sqlite"):
            self.register(tool, "the setting documents")

    def _register_point(self, point: EntryPoint) -> None:
        origin = f"entry point {point.name} ({point.value})"
        try:
            loaded = point.load()
        except Exception as cause:
            raise BadSetting(f"tools: {origin} can't be loaded: {_said(cause)}") from cause
        if isinstance(loaded, Tool):
            self.register(loaded, origin)
        elif isinstance(loaded, ModuleType):
            self._register_all(loaded, origin)
        else:
            raise BadSetting(f"tools: {origin} is neither a tool nor a module")


def _imported(name: str) -> ModuleType:
    try:
        return _from_file(Path(name)) if name.endswith(".py") else importlib.import_module(name)
    except Exception as cause:
        raise BadSetting(f"tools: {name} can't be imported: {_said(cause)}") from cause


def _from_file(path: Path) -> ModuleType:
    """The module in that file, under a name of its own, so that it hides none and is run once a process."""
    path = path.resolve(strict=True)
    name = f"fleet_tools_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _said(cause: Exception) -> str:
    return f"{type(cause).__name__}: {cause}"
