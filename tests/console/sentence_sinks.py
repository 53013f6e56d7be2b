"""Where sentences are handed on to be stored or shown, and whether each can be found as a template."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.console import sentence_source

# call -> which arguments are sentences: by place, and by name
SINKS: dict[str, tuple[tuple[int, ...], tuple[str, ...]]] = {
    "record.event": ((), ("message",)),
    "record.decision": ((), ("why",)),
    "steps.write": ((), ("message", "hint")),
    "Reason": ((1, 2), ("message", "hint")),
    "RefusedError": ((1,), ("message", "hint")),
    "GatewayError": ((2,), ("message",)),
    "UpstreamError": ((1,), ("message",)),
    "ProbeError": ((0,), ()),
    "NoPortError": ((0,), ()),
    "Unusable": ((1, 2), ("message", "hint")),
    "SettingProblem": ((1,), ("message",)),
    "Create": ((0,), ("why",)),
    "Hold": ((1,), ("why",)),
    "Stop": ((3,), ("why",)),
    "Placement": ((2,), ("why",)),
}
# call -> which argument is the rule of a decision
RULES = {"_decide": 0, "Hold": 0, "Create": 1, "Stop": 2, "_end": 2}
_VERB = re.compile(
    r"(api_key|controller|deployment|model|node|pool|replica|system|tenant|token|user|variant)\.(?!name$)[a-z_]+"
)
# told to open pages only, never written into the journal
_NOT_EVENTS = {
    "deployment.replicas",
    "model.num_hidden_layers",
    "model.parameters",
    "node.memory_free",
    "node.probe",
    "node.reported",
    "node.wake",
    "replica.stopping",
    "replica.waiting",
}
_PUT_TOGETHER = ("join", "format", "format_map", "replace")


def unfound(known: set[str]) -> Iterator[str]:
    """Yields each place where a sentence is handed on that no template stands for."""
    for path in sorted(sentence_source.files()):
        if sentence_source.TERMINAL in str(path):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        place = str(path.relative_to(sentence_source.ROOT))
        for line, text in _of_function(tree, sentence_source.scope_of(tree, None), known):
            if not sentence_source.FIGURES.match(place) or sentence_source.is_sentence(text):
                yield f"{place}:{line}: {text}"


def of_source(source: str, known: set[str]) -> list[str]:
    """Returns what `unfound` says of one text."""
    tree = ast.parse(source)
    return [text for _, text in _of_function(tree, sentence_source.scope_of(tree, None), known)]


def _of_function(node: ast.AST, scope: sentence_source.Scope, known: set[str]) -> Iterator[tuple[int, str]]:
    for child in ast.iter_child_nodes(node):
        inner = scope
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            inner = sentence_source.scope_of(child, scope)
        if isinstance(child, ast.Call) and ast.unparse(child.func) in SINKS:
            for argument in _sentences(child):
                yield from ((argument.lineno, text) for text in _problems(argument, inner, known))
        yield from _of_function(child, inner, known)


def _sentences(call: ast.Call) -> Iterator[ast.expr]:
    places, names = SINKS[ast.unparse(call.func)]
    yield from (call.args[place] for place in places if place < len(call.args))
    yield from (keyword.value for keyword in call.keywords if keyword.arg in names)


def _problems(argument: ast.expr, scope: sentence_source.Scope, known: set[str]) -> Iterator[str]:
    for variant in sentence_source.variants(argument, scope):
        whole = len(variant) == 1 and isinstance(variant[0], ast.expr)
        if whole and _is_put_together(variant[0]):
            yield ast.unparse(argument)
        elif not whole and variant and (text := sentence_source.render(variant)) and text not in known:
            yield text


def _is_put_together(piece: sentence_source.Piece) -> bool:
    match piece:
        case ast.BinOp():
            # what gettext was asked for is in the reader's language already
            return not (isinstance(piece.op, ast.Mod) and isinstance(piece.left, ast.Call))
        case ast.Call(func=ast.Attribute(value=ast.Constant(), attr=name)):
            return name in _PUT_TOGETHER
    return False


def names() -> tuple[set[str], set[str]]:
    """Returns the verbs of events and the rules of decisions that the program writes."""
    verbs: set[str] = set()
    rules: set[str] = set()
    for path in sentence_source.files():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        texts = {
            node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        verbs |= {text for text in texts if _VERB.fullmatch(text)} - _NOT_EVENTS
        rules |= {name for node in ast.walk(tree) if isinstance(node, ast.Call) for name in _rules(node)}
    return verbs, rules


def _rules(call: ast.Call) -> Iterator[str]:
    place = RULES.get(ast.unparse(call.func))
    given = [keyword.value for keyword in call.keywords if keyword.arg == "rule"]
    for argument in [*given, *(call.args[place : place + 1] if place is not None else ())]:
        for node in (argument.body, argument.orelse) if isinstance(argument, ast.IfExp) else (argument,):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
