"""Measures how readable the source is: words of docstrings, sources, class names, import levels."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter

from tests.house import ledger, reach
from tests.house.source import PACKAGE, ROOT, Module, modules

INDEFINITE = frozenset(
    """
    who whom whose what which those these one ones it its each another others somebody nobody everybody anybody
    something nothing everything anything
    """.split()  # noqa: SIM905
)
MOST_INDEFINITE = 1.8  # per 100 words of docstrings; dask has 1.7, distributed 1.9, jupyter_server 1.1
MOST_IN_COMMENTS = 2.4  # per 100 words of comments; dask has 1.5, distributed 1.7, trio 2.6
MOST_PROTOCOLS, MOST_FORWARDS, MOST_AMBIGUOUS = 12, 33, 0
MOST_LEVELS = {"memory": 8, "dispatch": 8, "processes": 8}  # folder: import levels inside

MOST_UNREACHED = 500

# The parts of a docstring that are no sentences: sections, doctests, sources.
_SECTION = re.compile(
    r"^\s*(?:(?:Parameters|Returns|Raises|Yields|Examples|Attributes|Notes|Warns|See Also|References)\s*\n\s*-{3,}"
    r"|Source:|>>> )",
    flags=re.MULTILINE,
)
_PRIVATE_DOCUMENTS = re.compile(
    r"\b(?:PLANNING|RUNTIME|RELIABILITY|NOTEBOOK|CAPABILITIES|MACHINES|ARCHITECTURE)\b(?! (?:=|state))"
    r"|\bthe issue's\b|\bshared design\b|\bthe design(?:'s)?\b|\bseeds? 00\d|\b(?:00[0-4]) and 00\d"
)
# Something that a reader can find outside: a paper with its year, a standard, an address, a file of a named project.
_ELSEWHERE = re.compile(
    r"\b(?:1[89]|20)\d\d\b|\b(?:NEP|RFC|PEP|IEEE|ISO)\s*\d+|\b[\w-]+\(\d\)|https?://|\b[\w-]+\.(?:org|com|dev|io|net)\b"
    r"|\b[\w/]+\.(?:py|pyx|h|c|cpp|ts|yml)\b|`[^`]+`|\b(?:NumPy|Mars|Dask|Linux|xarray|Jupyter\w*|Spark|CPython|babylon)\b"
)


def docstrings(module: Module) -> Iterator[tuple[str, str]]:
    """Qualified name and docstring of a module, its classes and its functions."""
    for node in ast.walk(module.tree()):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield getattr(node, "name", module.name), text


def sentences(docstring: str) -> str:
    """A docstring up to its first section, code in backticks left out."""
    found = _SECTION.search(docstring)
    return re.sub(r"`[^`]*`", "code", docstring[: found.start()] if found else docstring)


def words(docstring: str) -> tuple[int, int]:
    """Words of a docstring's sentences, and the indefinite words among them."""
    every = re.findall(r"[A-Za-z']+", sentences(docstring))
    return len(every), sum(word.lower() in INDEFINITE for word in every)


@cache
def words_by_module() -> dict[str, tuple[int, int]]:
    """Words and indefinite words of each module's docstrings."""
    found = {}
    for module in modules():
        counts = [words(text) for _, text in docstrings(module)]
        found[module.name] = (sum(n for n, _ in counts), sum(bad for _, bad in counts))
    return found


def words_by_folder() -> dict[str, tuple[int, int]]:
    """The same by folder of jmars/."""
    found: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for module in modules():
        total, bad = words_by_module()[module.name]
        before = found[module.folder]
        found[module.folder] = (before[0] + total, before[1] + bad)
    return dict(found)


def worst_files(number: int, folder: str = "") -> list[str]:
    """The files with most indefinite words, with their worst docstring."""
    counted = []
    for module in modules():
        if folder in str(module.path.relative_to(ROOT)):
            total, bad = words_by_module()[module.name]
            counted.append((bad, total, module))
    counted.sort(key=lambda row: -row[0])
    lines = []
    for bad, total, module in counted[:number]:
        name, text = max(docstrings(module), key=lambda pair: words(pair[1])[1], default=("", ""))
        first = text.partition("\n")[0]
        lines.append(f"{bad:4} of {total:5}  {module.path.relative_to(ROOT)}  {name}: {first}")
    return lines


def sources(text: str) -> Iterator[str]:
    """The clauses of every `Source:` of a docstring or comment."""
    for match in re.finditer(r"Source: (.*?)(?:\n\s*\n|\"\"\"|\Z)", text, flags=re.DOTALL):
        yield from (" ".join(clause.split()).rstrip(".") for clause in match[1].split(";"))


def dangling_sources() -> list[str]:
    """Sources that a reader of the repository cannot follow, and private documents named anywhere in the source."""
    found = []
    for module in modules():
        where = str(module.path.relative_to(ROOT))
        lines = enumerate(module.text.splitlines(), 1)
        found += [f"{where}:{n}: {line.strip()[:90]}" for n, line in lines if _PRIVATE_DOCUMENTS.search(line)]
        for _, docstring in docstrings(module):
            found += [f"{where}: {clause[:90]}" for clause in sources(docstring) if not _resolves(clause)]
    return found


def _resolves(clause: str) -> bool:
    page = re.search(r"\b(docs/[\w/.-]+\.md)", clause)
    if page is None:
        return bool(_ELSEWHERE.search(clause)) and not _PRIVATE_DOCUMENTS.search(clause)
    path = ROOT / page[1]
    if not path.exists():
        return False
    headings = {line.lstrip("# ").strip() for line in path.read_text().splitlines() if line.startswith("#")}
    return all(name in headings for name in re.findall(r'"([^"]+)"', clause))


def class_names_twice() -> dict[str, list[str]]:
    """Public and private class names that two modules define."""
    places = defaultdict(list)
    for module in modules():
        for node in ast.walk(module.tree()):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{module.name}:{node.lineno}")
    return {name: where for name, where in sorted(places.items()) if len(where) > 1}


def file_names_twice() -> dict[str, list[str]]:
    """File names that stand in two folders of jmars/."""
    places = defaultdict(list)
    for module in modules():
        if module.path.name not in ("__init__.py", "__main__.py"):
            places[module.path.name].append(str(module.path.relative_to(ROOT).parent))
    return {name: where for name, where in sorted(places.items()) if len(where) > 1}


def levels(folder: str) -> int:
    """Import levels inside a folder of jmars/: 1 where no file imports another of the folder."""
    inside = {module.name: module for module in modules() if module.folder == folder}
    needs = {}
    for name, module in inside.items():
        needs[name] = set()
        for found in module.imports():
            if not found.typing:
                submodules = {f"{found.target}.{taken}" for taken in found.names} & inside.keys()
                needs[name] |= (submodules or {found.target} & inside.keys()) - {name}
    height: dict[str, int] = {}
    for name in TopologicalSorter(needs).static_order():
        height[name] = 1 + max((height[below] for below in needs[name]), default=0)
    return max(height.values(), default=0)


def folders() -> list[str]:
    """The folders of jmars/ that hold Python."""
    return sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))


def rate() -> float:
    """Indefinite words per 100 words of docstrings."""
    counts = words_by_module().values()
    return 100 * sum(bad for _, bad in counts) / sum(total for total, _ in counts)


def comment_rate() -> float:
    """Indefinite words per 100 words of comments; "its" and "each", which a noun follows, are no such words here."""
    every: list[str] = []
    for module in modules():
        for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
            if token.type == tokenize.COMMENT and not re.match(r"# (?:type:|noqa|fmt:|pragma)", token.string):
                every += re.findall(r"[A-Za-z']+", re.sub(r"`[^`]*`", "code", token.string))
    return 100 * sum(word.lower() in INDEFINITE - {"its", "each"} for word in every) / len(every)


def protocols() -> list[str]:
    """Classes that are protocols of typing."""
    found = []
    for module in modules():
        for node in ast.walk(module.tree()):
            if isinstance(node, ast.ClassDef) and any(
                ast.unparse(base).split("[")[0] == "Protocol" for base in node.bases
            ):
                found.append(f"{module.name}.{node.name}")
    return found


def forwards() -> list[str]:
    """Methods that only call a method of a member with their own arguments."""
    found = []
    for module in modules():
        for kind in ast.walk(module.tree()):
            if isinstance(kind, ast.ClassDef):
                methods = (one for one in kind.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))
                found += [f"{module.name}.{kind.name}.{one.name}" for one in methods if _is_forward(one)]
    return found


def _is_forward(method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    body = method.body[1:] if ast.get_docstring(method) else method.body
    if len(body) != 1 or not isinstance(body[0], ast.Return | ast.Expr):
        return False
    call = body[0].value
    if isinstance(call, ast.Await):
        call = call.value
    if not isinstance(call, ast.Call) or not re.fullmatch(r"self(\.\w+){2,}", ast.unparse(call.func)):
        return False
    given = [ast.unparse(arg).lstrip("*") for arg in [*call.args, *(word.value for word in call.keywords)]]
    args = method.args
    own = [arg.arg for arg in [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg] if arg][1:]
    return sorted(given) == sorted(own)


def ambiguous_constants() -> list[str]:
    """Names of constants that have two values in a folder."""
    values: dict[tuple[str, str], set[str]] = defaultdict(set)
    for module in modules():
        for node in module.tree().body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name | ast.Tuple):
                target, value = node.targets[0], node.value
                pairs = [(target, value)]
                if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                    pairs = list(zip(target.elts, value.elts, strict=False))
                for name, one in pairs:
                    text = ast.unparse(one)
                    if isinstance(name, ast.Name) and name.id.isupper() and re.fullmatch(r"[-+*/\d.e() ]+", text):
                        values[module.folder, name.id].add(text)
    return [f"{folder}: {name}" for (folder, name), found in sorted(values.items()) if len(found) > 1]


def report() -> list[str]:
    """All figures, a line each."""
    lines = [f"modules: {len(modules())}  lines: {sum(len(one.text.splitlines()) for one in modules())}"]
    by_folder: dict[str, list[int]] = defaultdict(list)
    for module in modules():
        by_folder[module.folder or "jmars"].append(len(module.text.splitlines()))
    lines += [f"    {folder:12} {len(each):4} {sum(each):6}" for folder, each in sorted(by_folder.items())]
    lines += ["lines by capability (at most):"]
    most = {name: ceiling for name, ceiling, _ in ledger.LEDGER}
    lines += [f"    {number:6} ({most[name]:6})  {name}" for name, number in ledger.lines().items()]
    lines += [f"protocols: {len(protocols())} (at most {MOST_PROTOCOLS})"]
    lines += [f"methods that only forward a call: {len(forwards())} (at most {MOST_FORWARDS})"]
    lines += [f"constants with two values in a folder: {len(ambiguous_constants())} (at most {MOST_AMBIGUOUS})"]
    lines += [f"indefinite words: {comment_rate():.2f} per 100 words of comments (at most {MOST_IN_COMMENTS})"]
    lines += [f"indefinite words: {rate():.2f} per 100 docstring words (at most {MOST_INDEFINITE})"]
    for folder, (total, bad) in sorted(words_by_folder().items()):
        lines.append(f"    {folder or 'jmars':12} {100 * bad / max(total, 1):5.2f}  ({bad} of {total})")
    lines.append(f"dangling sources: {len(dangling_sources())}")
    lines.append(f"class names twice: {len(class_names_twice())}")
    lines.append(f"file names twice: {len(file_names_twice())}")
    lines.append(f"lines that no entry point reaches: {reach.unreached_lines()} (at most {MOST_UNREACHED})")
    for one in reach.unreached():
        reason = reach.KEPT.get(one.module) or reach.KEPT.get(f"{one.module}:{one.name}", "no reason given")
        lines.append(f"    {one.lines:4} {one.module}:{one.name}: {reason}")
    lines.append("import levels: " + "  ".join(f"{name} {levels(name)}" for name in folders()))
    return lines


def failures() -> list[str]:
    """What is beyond its limit, a line each."""
    found = []
    if rate() > MOST_INDEFINITE:
        found.append(f"indefinite words: {rate():.2f} > {MOST_INDEFINITE}")
    if comment_rate() > MOST_IN_COMMENTS:
        found.append(f"indefinite words of comments: {comment_rate():.2f} > {MOST_IN_COMMENTS}")
    counted = (protocols, MOST_PROTOCOLS), (forwards, MOST_FORWARDS), (ambiguous_constants, MOST_AMBIGUOUS)
    for count, most in counted:
        if len(count()) > most:
            found.append(f"{count.__name__}: {len(count())} > {most}: {', '.join(count())}")
    found += [f"ledger: {line}" for line in ledger.failures()]
    found += [f"dangling source: {line}" for line in dangling_sources()]
    found += [f"class name twice: {name}: {', '.join(where)}" for name, where in class_names_twice().items()]
    for folder, most in MOST_LEVELS.items():
        if folder in folders() and levels(folder) > most:
            found.append(f"import levels inside {folder}: {levels(folder)} > {most}")
    if reach.unreached_lines() > MOST_UNREACHED:
        found.append(f"lines that no entry point reaches: {reach.unreached_lines()} > {MOST_UNREACHED}")
    found += [f"no entry point reaches {name}; delete it, or give the reason in KEPT" for name in reach.unexplained()]
    return found
