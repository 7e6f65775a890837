"""The import arrows of the house, read from the source: who may know whom, and who must not know torch.

architecture, config, check, text -> nn -> models -> build, published, presets, interop -> checkpoint, data
-> train | generate -> evaluate, documents -> folder, text_training, training, api -> serve -> terminal, cli
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src" / "headway"

# A room may import the rooms before it. Rooms of one line with commas know each other in that order; with `|`, never.
HOUSE = """
    strict, allocator, architecture, config, check, text, formats
    nn
    models
    build, published, presets, recipe, interop
    checkpoint, data
    train | generate
    evaluate, documents
    folder, text_training, training, api
    serve
    terminal, cli
    __main__
"""


def known_rooms() -> dict[str, set[str]]:
    known, before = {}, set()
    for line in HOUSE.split("\n"):
        rooms = line.replace("|", " ").replace(",", " ").split()
        for number, room in enumerate(rooms):
            known[room] = before | (set(rooms[:number]) if "," in line else set())
        before = before | set(rooms)
    return known


KNOWN = known_rooms()


def imports(path: Path, package: str) -> Iterator[tuple[str, int]]:
    """Every module that a file imports, relative ones resolved, with its line, but not those for types only."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_types = {
        id(node)
        for guard in ast.walk(tree)
        if isinstance(guard, ast.If) and "TYPE_CHECKING" in ast.unparse(guard.test)
        for child in guard.body
        for node in ast.walk(child)
    }
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *([base] if base else [])])
            if base == "headway":
                yield from ((f"headway.{alias.name}", node.lineno) for alias in node.names)
            else:
                yield base, node.lineno


def files() -> list[Path]:
    return sorted(path for path in ROOT.rglob("*.py") if path.name != "__init__.py" or path.parent != ROOT)


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def package_of(path: Path) -> str:
    return ".".join(["headway", *path.relative_to(ROOT).parent.parts])


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", files(), ids=name_of)
def test_every_room_imports_only_rooms_before_it(path: Path) -> None:
    room = room_of(path)
    assert room in KNOWN, f"{name_of(path)}: the room {room!r} has no place in the house; add it to DESIGN and here"
    wrong = []
    for module, line in imports(path, package_of(path)):
        if not module.startswith("headway.") or (other := module.split(".")[1]) == room or other not in KNOWN:
            continue
        if other not in KNOWN[room]:
            wrong.append(f"{name_of(path)}:{line} imports {module}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", files(), ids=name_of)
def test_nothing_in_the_package_imports_the_tests(path: Path) -> None:
    names = {module.split(".")[0] for module, _ in imports(path, package_of(path))}
    assert not names & {"tests", "conftest", "twins", "contract", "pytest", "hypothesis", "beartype"}


def test_configs_recipes_and_text_import_no_torch() -> None:
    """Followed through every module of the house that they import, since one torch anywhere below costs seconds."""
    start = [path for path in files() if room_of(path) in {"strict", "config", "text", "presets", "recipe"}]
    seen, todo = set(), list(start)
    while todo:
        path = todo.pop()
        if path in seen or not path.exists():
            continue
        seen.add(path)
        for module, line in imports(path, package_of(path)):
            assert module.split(".")[0] != "torch", f"{name_of(path)}:{line} imports {module}"
            if module.startswith("headway."):
                inside = ROOT.joinpath(*module.split(".")[1:])
                todo += [inside.with_suffix(".py"), inside / "__init__.py"]


@pytest.mark.parametrize("path", [path for path in files() if room_of(path) == "nn"], ids=name_of)
def test_nn_imports_torch_and_jaxtyping_only(path: Path) -> None:
    standard = {"__future__", "abc", "collections", "dataclasses", "enum", "functools", "itertools", "math", "typing"}
    for module, line in imports(path, package_of(path)):
        name = module if module.startswith("headway") else module.split(".")[0]
        allowed = name in {"torch", "jaxtyping"} | standard or name.startswith("headway.nn")
        assert allowed, f"{name_of(path)}:{line} imports {module}"


def test_the_package_names_no_room_that_says_nothing() -> None:
    names = {part.removesuffix(".py") for path in files() for part in path.relative_to(ROOT).parts}
    assert not names & {"utils", "util", "common", "base", "helpers", "misc"}
