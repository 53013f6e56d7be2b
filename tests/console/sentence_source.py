"""Every sentence that the program says in English and stores or passes on, found in the source as a template.

A sentence is a string that begins like one, ends with a full stop or a question mark and is neither a docstring, a
line of a log, a help text nor the message of an error that nobody is shown. Its values become holes with names:
`f"There is no node {name}."` is the template `There is no node {name}.`. What a sentence takes from a choice
(`'hot' if hot else 'cold'`, or a variable that was given such texts above) is written out: one template each.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLACES = (
    "controlplane/accounts", "controlplane/backup", "controlplane/catalog", "controlplane/console",
    "controlplane/deployments", "controlplane/domain", "controlplane/fleet", "controlplane/journal",
    "controlplane/lib/endpoint.py", "controlplane/lib/upstream.py", "controlplane/lib/upstream_connection.py",
    "controlplane/traffic",
    "controlplane/gateway/errors.py", "controlplane/gateway/forward.py", "controlplane/gateway/relay.py",
    "controlplane/gateway/routes.py", "controlplane/gateway/snapshot.py", "engine_adapters", "workers/node",
)  # fmt: skip
_NO_PLACES = {"api", "api.py", "migrations", "management", "server", "demo", "health.py"}
# commands whose refusals are read in a terminal: only what they leave in the journal is looked for
TERMINAL = "controlplane/backup"
# functions whose answers become parts of a sentence
PARTS = {
    "controlplane/domain/placement.py": ("why_not", "_missing", "sentence"),
    "controlplane/domain/placement_cards.py": ("choose", "why_not", "_missing", "too_few", "why_spare"),
    "controlplane/domain/card_health.py": ("why_unfit",),
    "controlplane/domain/model_files.py": ("judge", "why_missing", "why_not"),
    "controlplane/domain/memory_return.py": ("why_unclear",),
    "controlplane/domain/placement_scores.py": ("why_better", "why", "_better"),
    "controlplane/deployments/services/model_facts.py": ("of_variant", "_on_disk", "_read"),
    "controlplane/deployments/controller/view.py": ("_slot",),
    "controlplane/deployments/services/checking.py": ("check",),
    "controlplane/deployments/services/deployments.py": ("_sentence",),
    "controlplane/catalog/services/models.py": ("delete_model", "delete_variant"),
    "workers/node/model_files.py": ("look",),
    "workers/node/processes.py": ("reap",),
    "workers/node/supervisor_replica.py": ("look",),
}
# sums of memory, speed and capacity: beside their sentences stands what a field should be ("one of 1, 2, 4")
FIGURES = re.compile(
    r"controlplane/(domain/(specs|footprint|ledger|performance|parallelism|capacity|estimate)|deployments/planner)"
)
_RIGHT_NAMES = re.compile(r"_?rights?|_RIGHT(_\w+)?", re.IGNORECASE)
# commands read by programs, whose answers no page shows
_NO_RIGHTS = re.compile(r"controlplane/domain/(estimate|performance/(case|fields))")
_QUIET_CALLS = {"SettingField", "add_argument", "compile", "format_html", "static", "getLogger"}
_GETTEXT = {"_", "gettext", "gettext_lazy", "ngettext", "ngettext_lazy"}
_QUIET_ERRORS = re.compile(
    r"^(ValueError|TypeError|RuntimeError|KeyError|LookupError|SystemExit|ImproperlyConfigured|InvalidTransitionError"
    r"|LostError|WireError|ScrapeError|ConfigError|NotImplementedError)\b"
)
_QUIET_KEYWORDS = {"help", "help_text", "description", "extra"}
_BEGINS = re.compile(r"[A-Z{`\"\-]|vLLM|([a-z0-9]+_)+[a-z0-9]+ |config\.json ")
_MOST_VARIANTS = 24
_MARKED_HOLE = re.compile(r"\{(\w+)\}")

Piece = str | ast.expr  # a text, or the expression of a hole
Variant = tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """A template, and whether it stands for itself or only inside another."""

    text: str
    part: bool


@dataclass(slots=True)
class Scope:
    """What the names of one function, or of the module, were given."""

    names: dict[str, list[ast.expr | None]] = field(default_factory=dict)
    outer: Scope | None = None

    def given(self, name: str) -> list[ast.expr | None]:
        if name in self.names:
            return self.names[name]
        return self.outer.given(name) if self.outer else [None]


def templates() -> dict[Found, str]:
    """Returns template -> the file it is in."""
    found: dict[Found, str] = {}
    for path in sorted(files()):
        place = str(path.relative_to(ROOT))
        for one in of_source(path.read_text(encoding="utf-8"), PARTS.get(place, ()), terminal=TERMINAL in place):
            found.setdefault(one, place)
        if FIGURES.match(place) and not _NO_RIGHTS.match(place):
            for one in rights(path.read_text(encoding="utf-8")):
                found.setdefault(one, place)
    return found


def rights(source: str) -> Iterator[Found]:
    """Yields what would be right in a field, of one file: parts that stand at the field and in hints."""
    tree = ast.parse(source)
    yield from _rights(tree, scope_of(tree, None))


def _rights(node: ast.AST, scope: Scope) -> Iterator[Found]:
    for child in ast.iter_child_nodes(node):
        inner = scope_of(child, scope) if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else scope
        for text in _right_texts(child):
            for variant in variants(text, inner):
                told = render(variant)
                if not is_sentence(told) and re.search(r"[a-z]{2,} |[a-z]{4,}", _MARKED_HOLE.sub("", told)):
                    yield Found(told, part=True)
        yield from _rights(child, inner)


def _right_texts(node: ast.AST) -> Iterator[ast.expr]:
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if _RIGHT_NAMES.fullmatch(name):
            yield from (one for one in (value.values if isinstance(value, ast.Dict) else [value]) if _is_text(one))
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=args, keywords=keywords):
            if name == "refuse" and _is_text(args[-1]):
                yield args[-1]
            for keyword in keywords:
                if keyword.arg == "fields" and isinstance(keyword.value, ast.Dict):
                    yield from (one for one in keyword.value.values if _is_text(one))


def files() -> Iterator[Path]:
    """Yields the files in which sentences are looked for."""
    for place in PLACES:
        paths = [ROOT / place] if place.endswith(".py") else (ROOT / place).rglob("*.py")
        for path in paths:
            inner = path.relative_to(ROOT).parts[1:]
            if not _NO_PLACES & set(inner) and "/".join(inner[-2:]) not in _NO_PLACES:
                yield path


def of_source(source: str, parts: tuple[str, ...] = (), *, terminal: bool = False) -> Iterator[Found]:
    """Yields the templates of one file; every text in the functions `parts` counts as a part."""
    tree = ast.parse(source)
    yield from _Walk(parts, quiet=terminal).walk(tree, scope_of(tree, None))


@dataclass(frozen=True, slots=True)
class _Walk:
    parts: tuple[str, ...]
    quiet: bool  # nothing counts but what goes into the journal
    part: bool = False

    def walk(self, node: ast.AST, scope: Scope) -> Iterator[Found]:
        here = self
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name in ("__str__", "check_invariants"):
                return
            scope, here = scope_of(node, scope), replace(self, part=node.name in self.parts)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "record.event":
            here = replace(self, quiet=False)
        for child in _children(node):
            if not (isinstance(child, ast.expr) and _is_text(child)):
                yield from here.walk(child, scope)
            elif not here.quiet:
                yield from _templates(child, scope, part=here.part)
                for inner in ast.walk(child) if here.part else ():
                    if isinstance(inner, ast.GeneratorExp | ast.ListComp):
                        yield from here.walk(inner, scope)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Yields what is below a node, without what is not said to anybody."""
    if isinstance(node, ast.Assert):
        return
    if isinstance(node, ast.Raise) and node.exc is not None and _QUIET_ERRORS.match(ast.unparse(node.exc)):
        return
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return  # a docstring
    if isinstance(node, ast.Call):
        name = ast.unparse(node.func)
        if name in _GETTEXT or name.startswith(("log.", "logger.")) or name.rpartition(".")[2] in _QUIET_CALLS:
            return
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.keyword) and child.arg in _QUIET_KEYWORDS):
            yield child


def _is_text(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Add) and (_is_text(node.left) or _is_text(node.right))
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _templates(node: ast.expr, scope: Scope, *, part: bool) -> Iterator[Found]:
    for variant in variants(node, scope):
        text = render(variant)
        if is_sentence(text):
            yield Found(text, part=False)
        elif part and _is_part(variant, text):
            yield Found(text, part=True)


def _is_part(variant: Variant, text: str) -> bool:
    if isinstance(variant[0], str) and variant[0].startswith(" "):
        return False  # it is written out where it is put in
    return " " in text and bool(re.search(r"[a-z]{2}|: |→", _MARKED_HOLE.sub("", text)))


def is_sentence(text: str) -> bool:
    """Returns whether a template reads like a sentence."""
    words = _MARKED_HOLE.sub("", text)
    if not _BEGINS.match(text) or re.search(r"\(\?P|\\[dSsw.]|\n|://\{", text):
        return False
    ends = re.search(r"[.?]$", text) and " " in text
    goes_on = re.search(r"(: |[.:;] )\{\w+\}$", text) and words.count(" ") > 1
    return bool((ends or goes_on) and re.search(r"[a-z]{2,}", words))


def variants(node: ast.expr, scope: Scope, depth: int = 0) -> list[Variant]:
    """Returns what a text can be; what is not known here is a hole."""
    match node:
        case ast.Constant(value=str(text)):
            return [(text,)]
        case ast.JoinedStr(values=values):
            return _product([variants(one, scope, depth) for one in values])
        case ast.FormattedValue(value=value):
            return _of_hole(value, scope, depth)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _product([_of_hole(left, scope, depth), _of_hole(right, scope, depth)])
    return _of_hole(node, scope, depth)


def _of_hole(node: ast.expr, scope: Scope, depth: int) -> list[Variant]:
    if depth > 4:
        return [(node,)]
    if isinstance(node, ast.IfExp):
        return [*_of_hole(node.body, scope, depth + 1), *_of_hole(node.orelse, scope, depth + 1)]
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or) and _is_text(node.values[-1]):
        return [one for value in node.values for one in _of_hole(value, scope, depth + 1)]
    if _is_text(node):
        return variants(node, scope, depth + 1)
    if not isinstance(node, ast.Name):
        return [(node,)]
    given = scope.given(node.id)
    known = [one for value in given if value is not None for one in _of_hole(value, scope, depth + 1)]
    told = [one for one in known if not any(isinstance(piece, ast.expr) and len(one) == 1 for piece in one)]
    worded = any(re.search(r"[A-Za-z]{2}", "".join(p for p in one if isinstance(p, str))) for one in told)
    if not told or not (worded or ("",) in told):
        return [(node,)]
    unknown = None in given or len(told) < len(known)
    return [*told, *([(node,)] if unknown else [])]


def _product(choices: list[list[Variant]]) -> list[Variant]:
    found = [tuple(itertools.chain(*one)) for one in itertools.islice(itertools.product(*choices), _MOST_VARIANTS + 1)]
    assert len(found) <= _MOST_VARIANTS, f"a sentence with too many choices: {render(found[0])}"
    return list(dict.fromkeys(found))


def render(variant: Variant) -> str:
    """Returns the template of a text."""
    text = ""
    used: dict[str, int] = {}
    for piece in variant:
        if isinstance(piece, str):
            text += piece
            continue
        name = hole_name(piece)
        used[name] = used.get(name, 0) + 1
        text += "{" + (f"{name}{used[name]}" if used[name] > 1 else name) + "}"
    return text.strip()


def hole_name(node: ast.expr) -> str:
    """Returns a name for a value, after its expression."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.lower().strip("_")
        case ast.Call(func=ast.Name(id="len"), args=[value]):
            return f"{hole_name(value)}_count"
        case ast.Call(args=[value, *_]):
            return hole_name(value)
        case ast.Call(func=ast.Attribute(value=value)):
            return hole_name(value)
        case ast.Call(func=ast.Name(id=name)) | ast.Subscript(slice=ast.Constant(value=str(name))):
            return name.lower().strip("_")
        case ast.Subscript(value=value) | ast.BinOp(left=value) | ast.BoolOp(values=[value, *_]):
            return hole_name(value)
        case ast.GeneratorExp(elt=value) | ast.ListComp(elt=value) | ast.FormattedValue(value=value):
            return hole_name(value)
    return "value"


def scope_of(node: ast.AST, outer: Scope | None) -> Scope:
    """Returns what the names inside a function or module were given."""
    scope = Scope(outer=outer)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        for one in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]:
            scope.names[one.arg] = [None]
    for inner in _own(node):
        for name, value in _assigned(inner):
            if not isinstance(node, ast.Module) or (value is not None and " " in ast.unparse(value)):
                scope.names.setdefault(name, []).append(value)
    return scope


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """Yields what is inside a function or module, without the functions in it."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield child
            yield from _own(child)


def _assigned(node: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            yield name, value
        case ast.AnnAssign(target=ast.Name(id=name), value=value):
            yield name, value
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
            for target, value in zip(targets, values, strict=False):
                if isinstance(target, ast.Name):
                    yield target.id, value
        case ast.Assign(targets=targets):
            for one in ast.walk(ast.Tuple(elts=targets)):
                if isinstance(one, ast.Name):
                    yield one.id, None
        case ast.For(target=target) | ast.comprehension(target=target):
            for one in ast.walk(target):
                if isinstance(one, ast.Name):
                    yield one.id, None
        case ast.AugAssign(target=ast.Name(id=name)) | ast.NamedExpr(target=ast.Name(id=name)):
            yield name, None
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
            yield name, None
