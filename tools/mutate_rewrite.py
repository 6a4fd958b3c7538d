# Rewrites a C file so that it holds all its mutants, each behind a number; used by tools/mutate.py.
#
# What is where comes from clang's own syntax tree (-ast-dump=json), so that nothing is guessed from text.
# Every place that can be mutated becomes an expression that asks which mutant is on (tools/mutate.h):
# one build serves all mutants. Only expressions in function bodies are touched, and only where the file
# itself spells them: what a macro expands to, constant expressions, sizes, labels and static data stay.
import json
import os
import re
import subprocess

RELATIONAL = {"<": ["<=", ">="], "<=": ["<", ">"], ">": [">=", "<="], ">=": [">", "<"],
              "==": ["!="], "!=": ["=="]}
ARITHMETIC = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "*", "<<": ">>", ">>": "<<",
              "&": "|", "|": "&", "^": "|"}
NO_EXPRESSION = {"ConstantExpr", "UnaryExprOrTypeTraitExpr", "OffsetOfExpr", "StaticAssertDecl",
                 "GenericSelectionExpr", "VAArgExpr", "AsmStmt", "GCCAsmStmt", "RecordDecl", "EnumDecl",
                 "TypedefDecl", "FullComment", "AtomicExpr"}
TRANSPARENT = {"ImplicitCastExpr", "ParenExpr"}


class Mutant:
    """One change of one place."""

    def __init__(self, operator, new):
        self.operator, self.new = operator, new
        self.number = self.file = self.line = self.function = self.old = self.nth = None

    @classmethod
    def made(cls, values):
        mutant = cls(values["operator"], values["new"])
        vars(mutant).update(values)
        return mutant

    def key(self):
        return (self.file, self.function, self.operator, self.old, self.new, self.nth)


class Place:
    """A range of the file, its mutants, and the text that stands for all of them."""

    def __init__(self, begin, end, function, mutants, text):
        self.begin, self.end, self.function, self.mutants, self.text = begin, end, function, mutants, text


def short(text):
    """Source on one line, as lists show it."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"\s+", " ", text).strip()
    return text if len(text) <= 70 else text[:45] + "..." + text[-22:]


class File:
    def __init__(self, path, tree, source):
        self.path, self.source = path, source
        self.places = []
        self.function = None
        self.numbers = set()  # enumerators that are named numbers, not states
        self.zeros = set()  # enumerators that are 0
        self.current = None
        self.spread_files(tree)
        for node in tree.get("inner", []):
            if node.get("kind") == "EnumDecl":
                self.note_numbers(node)
        for node in tree.get("inner", []):
            if node.get("kind") == "FunctionDecl" and self.in_file(node.get("loc", {})):
                body = [n for n in node.get("inner", []) if n.get("kind") == "CompoundStmt"]
                if body:
                    self.function = node["name"]
                    self.returns = node["type"]["qualType"].split("(")[0].strip()
                    self.visit(body[0])

    # -------------------------------------------------------------------------- where things are

    def spread_files(self, node):
        """clang names a file only where it changes: give each place its own."""
        if isinstance(node, list):
            for each in node:
                self.spread_files(each)
        elif isinstance(node, dict):
            if "offset" in node:
                self.current = node.get("file", self.current)
                node["file"] = self.current
            for name, each in node.items():
                if isinstance(each, (dict, list)) and name not in ("includedFrom", "type", "referencedDecl"):
                    self.spread_files(each)

    def in_file(self, place):
        place = place.get("expansionLoc", place)
        return place.get("file") == self.path

    def note_numbers(self, node):
        value = 0
        for each in node.get("inner", []):
            if each.get("kind") != "EnumConstantDecl":
                continue
            if each.get("inner"):
                value = int(each["inner"][0].get("value", 1))
                if "name" not in node:
                    self.numbers.add(each["id"])
            if value == 0:
                self.zeros.add(each["id"])
            value += 1

    def closing(self, offset):
        """Behind the bracket that closes the one at offset."""
        depth = 0
        for match in re.compile(rb'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|/\*.*?\*/|[()]', re.S).finditer(self.source, offset):
            depth += {b"(": 1, b")": -1}.get(match.group(), 0)
            if depth == 0:
                return match.end()
        raise ValueError("no closing bracket")

    def range(self, node):
        """(begin, end) in the file's own text, or None where a macro made it."""
        begin, end = node["range"]["begin"], node["range"]["end"]
        if not begin or not end or not self.in_file(begin) or not self.in_file(end):
            return None
        if "expansionLoc" in begin and "expansionLoc" in end and \
                begin["expansionLoc"]["offset"] == end["expansionLoc"]["offset"]:
            return None
        first = begin.get("expansionLoc", begin)["offset"]
        if "expansionLoc" in end:
            last = self.behind_macro(end["expansionLoc"])
        else:
            last = end["offset"] + end["tokLen"]
        return first, last

    def behind_macro(self, place):
        last = place["offset"] + place["tokLen"]
        if self.source[last:last + 1] == b"(":
            return self.closing(last)
        return last

    def own_macro(self, node):
        """The range of a macro without arguments that stands for this whole expression, if it is ours."""
        begin, end = node["range"]["begin"], node["range"]["end"]
        if "expansionLoc" not in begin or "expansionLoc" not in end or not self.in_file(begin):
            return None
        place = begin["expansionLoc"]
        if place["offset"] != end["expansionLoc"]["offset"]:
            return None
        return place["offset"], self.behind_macro(place)

    # -------------------------------------------------------------------------- what can be changed

    def visit(self, node, parent=None, boolean=False, statement=False):
        kind = node.get("kind")
        if not kind or kind in NO_EXPRESSION:
            return
        if kind == "VarDecl" and node.get("storageClass") == "static":
            return
        if kind == "EnumDecl":
            return
        self.look(node, kind, parent, boolean, statement)
        if "range" in node and kind not in ("DeclStmt", "CompoundStmt") and kind.endswith(("Expr", "Operator", "Literal")):
            if self.range(node) is None:
                return  # within a macro
        children = [child for child in node.get("inner", [])]
        if kind == "ImplicitCastExpr" and node.get("castKind") == "NullToPointer":
            return
        for at, child in enumerate(children):
            self.visit(child, node, *self.role(kind, node, at, children, boolean))

    @staticmethod
    def role(kind, node, at, children, boolean):
        """Is this child asked whether it is true? Is it a statement?"""
        if kind == "IfStmt":
            return (at == 0, at > 0)
        if kind == "WhileStmt":
            return (at == 0, at == 1)
        if kind == "DoStmt":
            return (at == 1, at == 0)
        if kind == "ForStmt":
            return (at == 2, at == 4)
        if kind == "ConditionalOperator":
            return (at == 0, False)
        if kind == "BinaryOperator" and node.get("opcode") in ("&&", "||"):
            return (True, False)
        if kind in ("CompoundStmt", "CaseStmt", "DefaultStmt", "LabelStmt"):
            return (False, at == len(children) - 1 or kind == "CompoundStmt")
        if kind in TRANSPARENT:
            return (boolean, False)
        return (False, False)

    def add(self, span, mutants, text):
        self.places.append(Place(span[0], span[1], self.function, mutants, text))

    @staticmethod
    def bare(node):
        while node.get("kind") in TRANSPARENT and node.get("inner"):
            node = node["inner"][0]
        return node

    @staticmethod
    def type_of(node):
        kind = node.get("type", {})
        return kind.get("desugaredQualType", kind.get("qualType", ""))

    def is_pointer(self, node):
        return "*" in self.type_of(node) or "[" in self.type_of(node)

    def is_integer(self, node):
        return re.fullmatch(r"(const |volatile )*(_Bool|bool|enum \w+|(unsigned |signed )*(char|short|int|long( long)?|__int128)|"
                            r"u?int\d+_t|size_t|ssize_t)", self.type_of(node)) is not None

    def look(self, node, kind, parent, boolean, statement):
        if "range" not in node:
            return
        opcode = node.get("opcode")
        span = self.range(node)
        if kind == "IntegerLiteral" or (span is None and kind.endswith(("Expr", "Operator", "Literal"))):
            self.look_at_constant(node, kind, span)
            return
        if kind == "DeclRefExpr" and span and node.get("referencedDecl", {}).get("id") in self.numbers:
            self.constant(span, "constant")
            return
        if span is None:
            return
        if kind == "BinaryOperator":
            self.look_at_binary(node, span, opcode, statement)
        elif kind == "CompoundAssignOperator":
            self.look_at_compound(node, span, opcode)
        elif kind == "UnaryOperator":
            self.look_at_unary(node, span, opcode)
        elif kind == "CallExpr" and statement and "expansionLoc" not in node["range"]["begin"]:
            self.add(span, [Mutant("remove", "call")],
                     lambda n, render: f"(mutant_at({n}, 1) ? (void)0 : (void)({render(*span)}))")
        elif kind == "ReturnStmt" and node.get("inner"):
            self.look_at_return(node["inner"][0])
        if boolean and kind not in TRANSPARENT and not (
                kind == "BinaryOperator" or (kind == "UnaryOperator" and opcode == "!") or kind.endswith("Literal")):
            self.add(span, [Mutant("negate", "negated")],
                     lambda n, render: f"((unsigned)!({render(*span)}) == mutant_at({n}, 1))")

    def text(self, span):
        return self.source[span[0]:span[1]].decode()

    def look_at_constant(self, node, kind, span):
        if span is not None:
            self.constant(span, "constant")
            return
        macro = self.own_macro(node)
        if macro is None or not self.is_integer(node):
            return
        text = self.text(macro)
        if text in ("true", "false"):
            other = "false" if text == "true" else "true"
            self.add(macro, [Mutant("boolean", other)], lambda n, render: f"(mutant_at({n}, 1) ? {other} : {text})")
        elif re.fullmatch(r"U?INT\d+_C\(\w+\)", text) or \
                (re.fullmatch(r"[A-Z][A-Z0-9_]*", text) and not re.match(r"U?INT\d*_MAX|SIZE_MAX|NULL$|E[A-Z0-9]+$|SEEK|O_", text)):
            if not any(p.begin == macro[0] for p in self.places):
                self.constant(macro, "constant")

    def constant(self, span, operator):
        text = self.text(span)
        digits = re.sub(r"U?INT\d+_C\((.*)\)", r"\1", text)
        try:
            value = int(re.sub(r"[uUlL]+$", "", digits), 0)
        except ValueError:
            value = None
        mutants = [Mutant(operator, "plus 1")]
        if value != 0:
            mutants.append(Mutant(operator, "minus 1"))
        if len(mutants) == 1:
            self.add(span, mutants, lambda n, render: f"(mutant_at({n}, 1) ? ({text} + 1) : {text})")
        else:
            def render_two(n, render):
                return f"__extension__({{ unsigned which_ = mutant_at({n}, 2); which_ == 0 ? {text} : " \
                       f"which_ == 1 ? ({text} + 1) : ({text} - 1); }})"
            self.add(span, mutants, render_two)

    def look_at_binary(self, node, span, opcode, statement):
        left, right = node["inner"]
        if opcode == "=":
            if statement:
                self.add(span, [Mutant("remove", "assignment")],
                         lambda n, render: f"(mutant_at({n}, 1) ? (void)0 : (void)({render(*span)}))")
            return
        a, b = self.operand(left), self.operand(right)
        if a is None or b is None:
            return
        if opcode in ("&&", "||"):
            was = short(self.text(span))
            other = "||" if opcode == "&&" else "&&"
            flip = "" if opcode == "&&" else "!"
            def logical(n, render):
                return (f"__extension__({{ _Bool l_{n} = !!({render(*a)}); _Bool m_{n} = {flip}mutant_at({n}, 1); "
                        f"(l_{n} ^ m_{n}) ? !!({render(*b)}) : m_{n}; }})")
            self.add(span, [Mutant("logical", f"{opcode} to {other}")], logical)
            return
        if opcode in RELATIONAL:
            others, operator = RELATIONAL[opcode], "relational"
        elif opcode in ARITHMETIC and not self.is_pointer(left) and not self.is_pointer(right):
            others, operator = [ARITHMETIC[opcode]], "arithmetic"
        else:
            return
        if self.is_pointer(left) and len(others) == 2 and not self.is_pointer(right):
            return
        traps = "/" in (opcode, others[0]) or opcode == "%"
        promote = {True: "", False: " + 0"}
        pl, pr = promote[self.is_pointer(left)], promote[self.is_pointer(right)]
        macro = "MUTANT_TRAP1" if traps else f"MUTANT_SWAP{len(others)}"
        def swap(n, render):
            return (f"__extension__({{ __auto_type l_{n} = ({render(*a)}){pl}; __auto_type r_{n} = ({render(*b)}){pr}; "
                    f"{macro}({n}, l_{n}, r_{n}, {opcode}, {', '.join(others)}); }})")
        self.add(span, [Mutant(operator, f"{opcode} to {other}") for other in others], swap)

    def operand(self, node):
        span = self.range(node)
        return span if span is not None else self.own_macro(node)

    def look_at_compound(self, node, span, opcode):
        left, right = node["inner"]
        a, b = self.operand(left), self.operand(right)
        if a is None or b is None or self.is_pointer(left):
            return
        plain = opcode[:-1]
        if plain not in ARITHMETIC:
            return
        other = ARITHMETIC[plain] + "="
        def compound(n, render):
            left, right = render(*a), render(*b)
            return f"(mutant_at({n}, 1) ? ({left} {other} {right}) : ({left} {opcode} {right}))"
        self.add(span, [Mutant("arithmetic", f"{opcode} to {other}")], compound)

    def look_at_unary(self, node, span, opcode):
        inner = node["inner"][0]
        a = self.operand(inner)
        if a is None:
            return
        if opcode in ("++", "--"):
            other = "--" if opcode == "++" else "++"
            post = node.get("isPostfix", False)
            def step(n, render):
                lvalue = render(*a)
                one = f"({lvalue}){opcode}" if post else f"{opcode}({lvalue})"
                two = f"({lvalue}){other}" if post else f"{other}({lvalue})"
                return f"(mutant_at({n}, 1) ? {two} : {one})"
            self.add(span, [Mutant("arithmetic", f"{opcode} to {other}")], step)
        elif opcode == "!":
            self.add(span, [Mutant("negate", "! left out")],
                     lambda n, render: f"((unsigned)!({render(*a)}) != mutant_at({n}, 1))")
        elif opcode in ("-", "~"):
            if self.bare(inner).get("kind") == "IntegerLiteral" and opcode == "-" and self.bare(inner).get("value") == "1":
                pass  # -1: the constant's own mutants say as much
            else:
                self.add(span, [Mutant("arithmetic", f"{opcode} left out")],
                         lambda n, render: f"(mutant_at({n}, 1) ? +({render(*a)}) : {opcode}({render(*a)}))")

    def look_at_return(self, value):
        bare = self.bare(value)
        if bare.get("kind", "").endswith("Literal") or not self.is_integer(value):
            return
        if bare.get("kind") == "BinaryOperator" and (bare.get("opcode") in RELATIONAL or bare.get("opcode") in ("&&", "||")):
            return
        if bare.get("kind") == "UnaryOperator" and bare.get("opcode") == "!":
            return
        span = self.range(value)
        if span is None or bare.get("referencedDecl", {}).get("id") in self.zeros:
            return
        if self.returns in ("bool", "_Bool"):
            self.add(span, [Mutant("return", "negated")],
                     lambda n, render: f"((unsigned)!({render(*span)}) == mutant_at({n}, 1))")
        else:
            def zero(n, render):
                return (f"__extension__({{ __auto_type v_{n} = ({render(*span)}) + 0; if (__builtin_expect(mutant_marks != 0, 0)) "
                        f"mutant_note({n}, v_{n} != 0); mutant_which({n}, 1) ? 0 : v_{n}; }})")
            self.add(span, [Mutant("return", "0")], zero)

    # -------------------------------------------------------------------------- the new text

    def mutants(self, first):
        """Numbers all mutants from `first` on, and returns them."""
        # Outer places before inner ones; of two with one range, the later found is the inner.
        self.places.sort(key=lambda p: (p.begin, -p.end))
        found, seen, number = [], {}, first
        for place in self.places:
            place.first = number
            for mutant in place.mutants:
                mutant.number, mutant.file, mutant.function = number, self.path, place.function
                mutant.line = self.source.count(b"\n", 0, place.begin) + 1
                mutant.old = short(self.text((place.begin, place.end)))
                key = (place.function, mutant.operator, mutant.old, mutant.new)
                seen[key] = seen.get(key, 0) + 1
                mutant.nth = seen[key]
                found.append(mutant)
                number += 1
        return found

    def rewritten(self):
        """The file's text with all mutants in it."""
        def render(places, begin, end):
            out, at, i = [], begin, 0
            while i < len(places):
                place = places[i]
                inside = []
                i += 1
                while i < len(places) and places[i].begin < place.end:
                    inside.append(places[i])
                    i += 1
                if place.begin < at or place.end > end:
                    raise ValueError(f"{self.path}: places overlap at {place.begin}")
                out.append(self.source[at:place.begin].decode())
                def part(b, e, inside=inside):
                    return render([p for p in inside if b <= p.begin and p.end <= e], b, e)
                out.append(place.text(place.first, part))
                at = place.end
            out.append(self.source[at:end].decode())
            return "".join(out)
        return f'#line 1 "{self.path}"\n' + render(self.places, 0, len(self.source))


def read(path, compiler, flags):
    """The file, looked through; its places are numbered by mutants()."""
    dump = subprocess.run([compiler, *flags, "-w", "-Werror=implicit", "-fsyntax-only", "-Xclang", "-ast-dump=json", path],
                          stdout=subprocess.PIPE, check=True).stdout
    tree = json.loads(dump)
    with open(path, "rb") as file:
        return File(path, tree, file.read())
