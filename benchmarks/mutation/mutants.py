"""Mutants: one small change of a source at a time, by its syntax tree; the text keeps its lines, so tracebacks stay readable."""

import ast
import copy
from collections.abc import Iterator
from dataclasses import asdict, dataclass

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
SYMMETRIC = {"min", "max", "minimum", "maximum"}  # of whose arguments the order means nothing
ELSEWHERE = {"device"}  # arguments that change nothing where there is one device
COMPILERS = {"kernel", "part", "inlined", "tolerant", "tolerant_inlined"}  # the decorators of pixtree.runtime.jit


@dataclass(frozen=True)
class Place:
    """Where a mutant stands: which names it may change, and which lines run when it does."""

    function: str | None  # the outermost function around it, None at the top of a module or a class
    owner: str | None  # the class around it
    compiled: bool  # whether that function is machine code
    names: tuple[str, ...]  # what the statement at the top assigns
    lines: tuple[int, int]  # of the innermost statement, or of the function for its defaults


@dataclass(frozen=True)
class Mutant:
    """One change: bytes start..end of a file become `text`."""

    path: str
    operator: str
    line: int
    start: int
    end: int
    text: str
    before: str  # the first changed line, stripped
    after: str
    place: Place

    @property
    def key(self) -> str:
        """A name that stays the same as long as the file does not change around it."""
        return f"{self.path}|{self.operator}|{self.line}|{self.start}|{self.before}|{self.text}"

    def record(self) -> dict[str, object]:
        """What the report says about it."""
        kept = asdict(self)
        return {name: kept[name] for name in ("path", "line", "operator", "before", "after")}

    def applied(self, source: str) -> str:
        """The changed source, with as many lines as before."""
        raw = source.encode()
        gone = raw[self.start : self.end]
        filler = b"\n" * (gone.count(b"\n") - self.text.encode().count(b"\n"))
        return (raw[: self.start] + self.text.encode() + filler + raw[self.end :]).decode()


def mutants_of(path: str, source: str) -> list[Mutant]:
    """All mutants of one file, in the order of its text."""
    return sorted(_Walk(path, source).found(), key=lambda one: (one.start, one.end, one.operator, one.text))


class _Walk:
    def __init__(self, path: str, source: str) -> None:
        self.path, self.source, self.tree = path, source, ast.parse(source)
        self.raw = source.encode()
        self.starts = [0]
        for line in self.raw.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def found(self) -> Iterator[Mutant]:
        yield from self._body(self.tree.body, None, None)

    def _body(self, body: list[ast.stmt], function: ast.AST | None, owner: str | None) -> Iterator[Mutant]:
        for statement in body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                outer = function or statement
                defaults = [*statement.args.defaults, *(one for one in statement.args.kw_defaults if one is not None)]
                whole = (statement.lineno, statement.end_lineno or 0)
                for default in defaults:
                    yield from self._expressions(default, self._place(outer, owner, statement, whole))
                yield from self._body(statement.body, outer, owner)
            elif isinstance(statement, ast.ClassDef):
                yield from self._body(statement.body, function, statement.name)
            else:
                yield from self._statement(statement, function, owner)

    def _statement(self, node: ast.stmt, function: ast.AST | None, owner: str | None) -> Iterator[Mutant]:
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Assert | ast.Pass | ast.Global | ast.Nonlocal):
            return
        blocks = [getattr(node, name) for name in ("body", "orelse", "finalbody") if getattr(node, name, None)]
        handlers = [handler.body for handler in getattr(node, "handlers", [])]
        last = min(block[0].lineno for block in [*blocks, *handlers]) - 1 if blocks or handlers else node.end_lineno or 0
        place = self._place(function, owner, node, (node.lineno, max(last, node.lineno)))
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not docstring:
            yield from self._removals(node, place)
        if isinstance(node, ast.Raise) or docstring:
            return  # error texts
        for child in self._parts(node):
            yield from self._expressions(child, place)
        if isinstance(node, ast.If):
            yield self._mutant(node.test, "negated condition", f"not ({ast.unparse(node.test)})", place)
        if isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
            yield self._mutant(node.value, "returned None", "None", place)
        if isinstance(node, ast.AugAssign) and type(node.op) in ARITHMETIC:
            changed = copy.deepcopy(node)
            changed.op = ARITHMETIC[type(node.op)]()
            yield self._mutant(node, "arithmetic", ast.unparse(changed), place)
        for block in [*blocks, *handlers]:
            yield from self._body(block, function, owner)

    @staticmethod
    def _parts(node: ast.stmt) -> list[ast.expr]:
        """The expressions of a statement itself, without annotations and without its blocks."""
        skipped = {"body", "orelse", "finalbody", "handlers", "annotation"}
        found: list[ast.expr] = []
        for name, value in ast.iter_fields(node):
            if name not in skipped:
                values = value if isinstance(value, list) else [value]
                found += [one for one in values if isinstance(one, ast.expr)]
                found += [one.context_expr for one in values if isinstance(one, ast.withitem)]
        return found

    def _removals(self, node: ast.stmt, place: Place) -> Iterator[Mutant]:
        kept = isinstance(node, ast.Assign) and all(isinstance(target, ast.Subscript) for target in node.targets)
        call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        if kept or call or isinstance(node, ast.Raise | ast.AugAssign | ast.Continue | ast.Break):
            yield self._mutant(node, "removed statement", "pass", place)

    def _expressions(self, node: ast.expr, place: Place) -> Iterator[Mutant]:
        if isinstance(node, ast.JoinedStr) or _is_type_union(node):
            return
        for operator, changed in _changes(node):
            text = changed if isinstance(changed, str) else f"({ast.unparse(changed)})"
            yield self._mutant(node, operator, text, place)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                yield from self._expressions(child, place)
            elif isinstance(child, ast.keyword):
                yield from self._expressions(child.value, place)
            elif isinstance(child, ast.comprehension):
                for part in (child.iter, *child.ifs):
                    yield from self._expressions(part, place)

    def _place(self, function: ast.AST | None, owner: str | None, node: ast.stmt, lines: tuple[int, int]) -> Place:
        name = getattr(function, "name", None)
        compiled = any(ast.unparse(one).partition("(")[0] in COMPILERS for one in getattr(function, "decorator_list", []))
        names: list[str] = []
        if function is None and isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)]
        return Place(name, owner, compiled, tuple(names), lines)

    def _mutant(self, node: ast.expr | ast.stmt, operator: str, text: str, place: Place) -> Mutant:
        start = self.starts[node.lineno - 1] + node.col_offset
        end = self.starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        made = Mutant(self.path, operator, node.lineno, start, end, text, "", "", place)
        before, after = (one.splitlines()[node.lineno - 1].strip() for one in (self.source, made.applied(self.source)))
        return Mutant(self.path, operator, node.lineno, start, end, text, before, after, place)


def _changes(node: ast.expr) -> Iterator[tuple[str, ast.expr | str]]:
    """Changes of one expression itself, not of its parts."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        for other in COMPARISONS[type(node.ops[0])]:
            yield "comparison", ast.Compare(node.left, [other()], node.comparators)
    elif isinstance(node, ast.Compare):
        for number, operator in enumerate(node.ops):
            changed = copy.deepcopy(node)
            changed.ops[number] = COMPARISONS[type(operator)][0]()
            yield "comparison", changed
    elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        if not any(isinstance(side, ast.Constant | ast.JoinedStr) and not _is_number(side) for side in (node.left, node.right)):
            yield "arithmetic", ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right)
    elif isinstance(node, ast.BoolOp):
        yield "boolean", ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub | ast.Invert):
        yield "dropped sign" if isinstance(node.op, ast.USub) else "boolean", node.operand
    elif isinstance(node, ast.IfExp):
        yield "negated condition", ast.IfExp(node.test, node.orelse, node.body)
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            yield "constant", str(not node.value)
        elif isinstance(node.value, int):
            yield "constant", str(node.value + 1)
        elif isinstance(node.value, float):
            yield "constant", repr(node.value * 2 if node.value else 1.0)
    elif isinstance(node, ast.Call):
        plain = [one for one in node.args if not isinstance(one, ast.Starred)]
        symmetric = ast.unparse(node.func).split(".")[-1] in SYMMETRIC
        if not symmetric and len(plain) == len(node.args) >= 2 and ast.dump(node.args[0]) != ast.dump(node.args[1]):
            yield "swapped arguments", ast.Call(node.func, [node.args[1], node.args[0], *node.args[2:]], node.keywords)
        for number, keyword in enumerate(node.keywords):
            if keyword.arg is not None and keyword.arg not in ELSEWHERE:
                yield "dropped argument", ast.Call(node.func, node.args, node.keywords[:number] + node.keywords[number + 1 :])


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float | complex)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_type_union(node: ast.expr) -> bool:
    """Unions of types are annotations in disguise."""
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr)):
        return False
    sides = (node.left, node.right)
    return any(_is_none(one) or (isinstance(one, ast.Name) and one.id[0].isupper()) or _is_type_union(one) for one in sides)
