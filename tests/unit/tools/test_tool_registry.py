"""Where tools come from, and what happens when two have one name."""

import subprocess
import sys
from pathlib import Path

import pytest

from fleet.errors import BadSetting, UnknownTool
from fleet.settings import Settings
from fleet.tools.decorator import tool
from fleet.tools.registry import BUILTINS, Registry

GREET = """
from fleet.tools.decorator import tool

@tool(effect="pure", name="{name}")
def greet(whom: str) -> str:
    return "hello " + whom
"""


@tool(effect="pure")
def calk(a: int) -> int:
    """Fill a gap."""
    return a


def module(folder: Path, file: str, name: str) -> str:
    path = folder / file
    path.write_text(GREET.format(name=name))
    return str(path)


def test_built_in_tools_are_there() -> None:
    registry = Registry.load()
    assert [spec.name for spec in registry.specs()] == ["calc", "extract", "fetch", "model", "pick", "summarise"]
    assert "calc" in registry
    assert len(registry) == len(list(registry)) == len(BUILTINS)


def test_tools_for_tests_are_there_only_if_their_module_is_listed() -> None:
    assert "sleep" not in Registry.load()
    assert {"noop", "sleep"} <= {t.spec.name for t in Registry.load(["fleet.tools.builtin.testing_aids"])}


def test_search_and_read_are_there_when_a_folder_is_configured(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("Water boils at 100 degrees.")
    settings = Settings(documents=tmp_path / "docs", data=tmp_path / "data", tools="")
    registry = Registry.configured(settings)
    assert registry.get("read")(source="a.md") == "Water boils at 100 degrees."  # type: ignore[operator]
    assert [path.suffix for path in (tmp_path / "data").glob("documents-*.sqlite")] == [".sqlite"]


def test_a_folder_of_documents_that_does_not_exist_is_a_bad_setting(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="nowhere is not a folder"):
        Registry.load(documents=tmp_path / "nowhere")


def test_every_tool_at_the_top_level_of_a_listed_file_is_registered(tmp_path: Path) -> None:
    path = module(tmp_path, "mine.py", "greet")
    settings = Settings(tools=f" {path} , fleet.tools.builtin.testing_aids", data=tmp_path)
    registry = Registry.configured(settings)
    assert registry.get("greet")(whom="you") == "hello you"  # type: ignore[operator]
    assert "noop" in registry
    assert Registry.load([path]).get("greet") is registry.get("greet")


def test_a_tool_imported_into_a_second_module_is_the_same_tool(tmp_path: Path) -> None:
    other = tmp_path / "other.py"
    other.write_text("from fleet.tools.builtin.calc import calc\n")
    assert "calc" in Registry.load([str(other)])


def test_two_tools_of_one_name_are_refused_and_both_modules_named(tmp_path: Path) -> None:
    """R30: what a name means must not hang on the order of imports."""
    one, two = module(tmp_path, "one.py", "greet"), module(tmp_path, "two.py", "greet")
    with pytest.raises(BadSetting) as refused:
        Registry.load([one, two])
    assert all(each in str(refused.value) for each in ('"greet"', one, two))
    with pytest.raises(BadSetting, match=r'two tools are named "calc": one from fleet\.tools\.builtin\.calc'):
        Registry.load([module(tmp_path, "three.py", "calc")])


@pytest.mark.parametrize(
    ("text", "cause"), [("import nowhere_at_all", "ModuleNotFoundError"), ("1/0", "ZeroDivisionError"), ("(", "Syntax")]
)
def test_a_module_that_fails_is_named_with_its_cause(tmp_path: Path, text: str, cause: str) -> None:
    path = tmp_path / "bad.py"
    path.write_text(text)
    for _ in range(2):
        with pytest.raises(BadSetting, match=f"bad.py can't be imported: {cause}"):
            Registry.load([str(path)])


def test_a_module_that_does_not_exist_is_named() -> None:
    with pytest.raises(BadSetting, match=r"no\.such\.module can't be imported"):
        Registry.load(["no.such.module"])
    with pytest.raises(BadSetting, match=r"gone\.py can't be imported: FileNotFoundError"):
        Registry.load(["gone.py"])


def test_an_unknown_tool_is_answered_with_the_closest_name_and_the_list() -> None:
    """R30: unknown tools go back to the model with the list."""
    registry = Registry([calk])
    with pytest.raises(UnknownTool, match=r'no tool "clak"\. Did you mean "calk"\? There are: calk'):
        registry.get("clak")
    with pytest.raises(UnknownTool, match=r'no tool "zzz"\. There are: calk'):
        registry.specs(["calk", "zzz"])
    with pytest.raises(UnknownTool, match="There are: none"):
        Registry().get("calk")


def test_specs_come_in_the_order_asked_for_and_else_by_name() -> None:
    registry = Registry.load()
    assert [spec.name for spec in registry.specs(["pick", "calc"])] == ["pick", "calc"]


def installed(folder: Path, monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    (folder / "greetings.py").write_text(GREET.format(name="greet"))
    info = folder / "greetings-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: greetings\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[fleet.tools]\ngreetings = {target}\n")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "greetings", raising=False)


@pytest.mark.parametrize("target", ["greetings", "greetings:greet"])
def test_an_installed_package_brings_its_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    installed(tmp_path, monkeypatch, target)
    assert "greet" in Registry.load()


@pytest.mark.parametrize(
    ("target", "words"), [("greetings:absent", "can't be loaded: AttributeError"), ("greetings:__name__", "neither")]
)
def test_an_installed_package_that_fails_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, words: str
) -> None:
    installed(tmp_path, monkeypatch, target)
    with pytest.raises(BadSetting, match=f"entry point greetings .*{words}"):
        Registry.load()


def test_loading_the_registry_imports_no_heavy_library(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib; from fleet.tools.registry import Registry; "
        f"Registry.load(documents=pathlib.Path({str(tmp_path)!r}), data=pathlib.Path({str(tmp_path)!r})); "
        "print([m for m in ('httpx', 'pypdf', 'simpleeval') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
