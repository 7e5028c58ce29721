"""Finds definitions that no entry point reaches: dead code, by names.

A definition (class, method, function) is reached when reached code mentions its name. Names are compared without types,
so that a name defined twice counts as reached at both places: the figure is a lower bound. Entry points are the public
packages, the commands, the processes, and what Jupyter, IPython, xarray and Dask call.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

from tests.house.source import Module, modules

# Modules whose code runs without an import from another module of jmars, with the reason.
ENTRY_MODULES = {
    "jmars": "import jmars",
    "jmars.__main__": "python -m jmars",
    "jmars.annex.flow": "public as jmars.flow, docs/reference/flow.md",
    "jmars.flow": "public module, docs/reference/flow.md",
    "jmars.plan": "public sub-package, docs/reference/planners.md",
    "jmars.notebook.magic": "%load_ext jmars",
    "jmars.notebook.server": "JupyterLab's server extension",
    "jmars.client.xarray_manager": "entry point xarray.chunkmanagers",
    "jmars.notebook.lexer": "entry point pygments.lexers",
    "jmars.notebook.server.cluster_process": "python -m, started by the Jupyter server",
    "jmars.tensor.numba_values": "numba asks a tensor for its type, imported by name",
    "jmars.tensor.ma": "np.ma in a cell, imported by name",
    "jmars.tensor.strings": "np.strings in a cell, imported by name",
    "jmars.tensor.ndimage": "scipy.ndimage in a cell, imported by name",
    "jmars.tensor.polynomial": "np.polynomial in a cell, imported by name",
    "jmars.native.__main__": "python -m jmars.native builds the kernels",
}
PUBLIC_PACKAGES = ("jmars.tensor", "jmars.remote", "jmars.array_api", "jmars.client")
# Classes without a public name of their own, whose objects users get.
USER_CLASSES = {
    "Generator": "np.random.default_rng()",
    "RandomState": "np.random.RandomState()",
    "PlannedRun": "Tensor.plan()",
    "DuckTensor": "mt.asarray of a sparse array",
    "MemoryFlags": "Tensor.flags",
    "_TensorIterator": "np.nditer(x)",
    "_TensorBroadcast": "np.broadcast(x, y)",
}
COMMAND_TABLES = ("jmars.__main__",)  # whose strings name modules and functions

# Definitions that other libraries call by name, with the library.
CALLED_FROM_OUTSIDE = {
    "numba": {"_numba_type_"},
    "asyncio": {"connection_made", "connection_lost", "data_received", "eof_received", "pause_writing"}
    | {"resume_writing", "buffer_updated", "get_buffer"},
    "tornado": {"get", "post", "put", "delete", "head", "options", "patch", "prepare", "initialize", "on_message"}
    | {"open", "on_close", "check_origin", "on_finish", "write_error", "set_default_headers", "data_received"}
    | {"get_current_user", "log_exception", "on_connection_close", "check_xsrf_cookie"},
    "Jupyter and IPython": {"load_ipython_extension", "unload_ipython_extension", "_load_jupyter_server_extension"}
    | {"_jupyter_labextension_paths", "_jupyter_server_extension_points", "initialize_handlers", "stop_extension"}
    | {
        "_ipython_display_",
        "_repr_html_",
        "_repr_pretty_",
        "_repr_mimebundle_",
        "_repr_png_",
        "_repr_svg_",
        "_ipython_key_completions_",
    }
    | {"initialize_settings", "compute_etag", "__array_namespace_info__"},
    "ast.NodeVisitor": {"generic_visit"},
    "pickle": {"dispatch_table", "persistent_id", "persistent_load", "reducer_override", "find_class"},
    "logging, json, threading": {"emit", "format", "filter", "default", "run"},
}
_OUTSIDE = frozenset().union(*CALLED_FROM_OUTSIDE.values())

# Decorators that leave it to callers whether a function runs; any other decorator registers the function somewhere.
_PASSIVE = {"property", "staticmethod", "classmethod", "cached_property", "contextmanager", "asynccontextmanager"}
_PASSIVE |= {"overload", "override", "cache", "lru_cache", "dataclass", "setter", "total_ordering", "abstractmethod"}
_PASSIVE |= {"final", "runtime_checkable", "wraps"}


@dataclass(eq=False)
class Definition:
    """A class, method or function with the names that its own code mentions."""

    module: str
    name: str
    first: int
    last: int
    holder: Definition | None = None  # the class of a method
    registered: bool = False
    bases: set[str] = field(default_factory=set)
    mentions: set[str] = field(default_factory=set)
    members: list[Definition] = field(default_factory=list)

    @property
    def lines(self) -> int:
        """Physical lines, docstring included."""
        return self.last - self.first + 1


@dataclass(frozen=True)
class _Code:
    imports: frozenset[str]  # modules of jmars
    body: frozenset[str]  # names that the module's own statements mention
    offered: frozenset[str]  # `__all__`; without it the public definitions
    definitions: tuple[Definition, ...]


def _mentions(nodes: Iterator[ast.AST] | list[ast.AST]) -> set[str]:
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 500:
            found.update(word for word in node.value.replace(".", " ").split() if word.isidentifier())
        elif isinstance(node, ast.keyword) and node.arg:
            found.add(node.arg)
        elif isinstance(node, ast.MatchClass):
            found.update(node.kwd_attrs)
    return found


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes of a definition without its docstring; functions nested in a function belong to it."""
    body = getattr(node, "body", None)
    docstring = None
    if isinstance(body, list) and body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        docstring = body[0].value
    stack = [node]
    while stack:
        current = stack.pop()
        if current is docstring:
            continue
        yield current
        stack.extend(ast.iter_child_nodes(current))


def _registers(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    for decorator in node.decorator_list:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")
        if name not in _PASSIVE:
            return True
    return False


def _definition(module: str, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Definition]:
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    found = Definition(module, node.name, first, node.end_lineno or node.lineno, registered=_registers(node))
    if not isinstance(node, ast.ClassDef):
        found.mentions = _mentions(_own(node))
        yield found
        return
    found.bases = _mentions(list(node.bases))
    for base in [*node.bases, *node.keywords, *node.decorator_list]:
        found.mentions |= _mentions(list(ast.walk(base)))
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for inner in _definition(module, statement):
                inner.holder = inner.holder or found
                found.members.append(inner)
                yield inner
        elif not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
            found.mentions |= _mentions(_own(statement))
    yield found


@cache
def _code(module: Module) -> _Code:
    names = {other.name for other in modules()}
    imports, body, offered, definitions = set(), set(), set(), []
    for found in module.imports():
        imports |= {f"{found.target}.{name}" for name in found.names} & names | {found.target} & names
    for statement in module.tree().body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            definitions += list(_definition(module.name, statement))
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            continue
        elif isinstance(statement, ast.Assign | ast.AugAssign) and "__all__" in _mentions(list(ast.walk(statement))):
            offered |= {node.value for node in ast.walk(statement) if isinstance(node, ast.Constant)}
        elif not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
            body |= _mentions(_own(statement))
    offered = offered or {one.name for one in definitions if one.holder is None and not one.name.startswith("_")}
    return _Code(frozenset(imports), frozenset(body), frozenset(map(str, offered)), tuple(definitions))


def _reached_modules() -> set[str]:
    by_name = {module.name: module for module in modules()}
    reached: set[str] = set()
    waiting = [name for name in ENTRY_MODULES if name in by_name]
    for table in COMMAND_TABLES:
        strings = {n.value for n in ast.walk(by_name[table].tree()) if isinstance(n, ast.Constant)}
        waiting += [name for name in by_name if name in strings]
    while waiting:
        name = waiting.pop()
        if name not in reached and name in by_name:
            reached.add(name)
            waiting += list(_code(by_name[name]).imports)
            waiting.append(name.rpartition(".")[0])
            strings = {n.value for n in ast.walk(by_name[name].tree()) if isinstance(n, ast.Constant)}
            waiting += [other for other in by_name if other in strings]  # import_module("jmars.tensor.ma")
    return reached


def unreached() -> list[Definition]:
    """Definitions that no entry point reaches, methods of unreached classes left out."""
    by_name = {module.name: module for module in modules()}
    alive = _reached_modules()
    every: list[Definition] = []
    mentioned: set[str] = set()
    waiting: set[str] = set()
    reached: set[Definition] = set()
    public = set().union(*(_code(by_name[name]).offered for name in ENTRY_MODULES if name in by_name))
    public |= set().union(*(_code(by_name[name]).offered for name in PUBLIC_PACKAGES)) | USER_CLASSES.keys()
    for module in modules():
        code = _code(module)
        every += code.definitions
        if module.name in alive:
            waiting |= code.body

    bases = {name for one in every if one.name in public and one.members for name in one.bases}
    while not bases <= public:  # methods of a public class's bases are the users', too
        public |= bases
        bases = {name for one in every if one.name in public and one.members for name in one.bases}

    def wants(definition: Definition) -> bool:
        if definition.module not in alive:
            return False
        name, holder = definition.name, definition.holder
        if holder is None:
            asked_of_a_module = name in ("__getattr__", "__dir__")
            return definition.registered or asked_of_a_module or name in mentioned | public | _OUTSIDE
        if holder not in reached:
            return False
        users = holder.name in public and not name.startswith("_")
        dunder = name.startswith("__") and name.endswith("__")
        visitor = name.startswith(("visit_", "on_", "do_"))
        return definition.registered or users or dunder or visitor or name in mentioned or name in _OUTSIDE

    changed = True
    mentioned |= waiting
    while changed:
        changed = False
        for definition in every:
            if definition not in reached and wants(definition):
                reached.add(definition)
                mentioned |= definition.mentions
                changed = True
    return [d for d in every if d not in reached and (d.holder is None or d.holder in reached)]


# Definitions that no entry point reaches, with the reason why they stay.
KEPT = {
    "jmars.deploy.host_processes": "its source is sent to another machine and runs there",
    "jmars.deploy.launch_ssh:address_here": "our address on the way to a machine, as ssh sees it",
    "jmars.kernels.cuda_text:has_numpys_bits": "for tests: which texts give NumPy's bits",
    "jmars.optimize.fuse_groups": "undoes fusion; the five documents ask for it (S1.3)",
    "jmars.actors.dialogue:tell_later": "a delayed message, part of Mars's actors (tests/seeds/test_s3_actors.py)",
    "jmars.actors.dialogue": "actors that a peer creates, part of Mars's actors (S3.2, tests/seeds/test_s3_actors.py)",
    "jmars.actors.dialogue:create_actor": "asks for one of them (S3.2)",
    "jmars.actors.dialogue:destroy_actor": "ends one of them (S3.2)",
    "jmars.native.loader:forced": "chooses C or Python kernels in tests that compare both",
}


def unexplained() -> list[str]:
    """Definitions that no entry point reaches and that `KEPT` does not explain."""
    found = [f"{one.module}:{one.name}" for one in unreached() if one.module not in KEPT]
    return [name for name in found if name not in KEPT]


def unreached_lines() -> int:
    """Lines of all definitions that no entry point reaches."""
    return sum(definition.lines for definition in unreached())


def unreached_modules() -> list[str]:
    """Modules that no entry point imports."""
    return sorted({module.name for module in modules()} - _reached_modules())
