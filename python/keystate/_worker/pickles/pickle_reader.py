"""Reads pickles without Python's unpickler, which does whatever they say.

This one knows the operations that protocol 4 writes, with a check at each: what may be named, what
may be called, whose attributes may be set. Plain data in a pickle is made by functions of its own,
which look at their arguments.
"""

from __future__ import annotations

import pickletools
import re
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any
from uuid import UUID, SafeUUID
from zoneinfo import ZoneInfo

from pyspark.sql import Row

from keystate._worker.pickles import plain_data
from keystate._worker.pickles.comparisons import Comparisons, Table, TooMuch


class Refused(Exception):
    """A pickle names, or does, what is not permitted."""


#: How classes that were permitted by a setting are found: by module and name, or ``Refused``.
Find = Callable[[str, str], Any]

_MARK = object()
_DICTS, _LISTS = (dict, OrderedDict, defaultdict, Counter), (list, set, deque)
_DEPTH = 500  # hash() would need more of C's stack for more


class _Plain:
    """A class or function of plain data: what to do when it is called.

    Args:
        named: what it is by itself, such as what a ``defaultdict`` makes.
    """

    def __init__(self, call: Callable[..., Any], named: Any = None) -> None:
        self.call = call
        self.named = named


class _DataType:
    """What stands for a data type of numpy until it is known to be plain."""

    def __init__(self, code: Any, *flags: Any) -> None:
        if not (isinstance(code, str) and re.fullmatch(r"b1|[iu][1248]|f[248]|c8|c16", code)):
            raise Refused(f"numpy.dtype {code!r}")
        self.code = code
        self.order = "|"

    def set(self, state: Any) -> None:
        if not (
            isinstance(state, tuple)
            and len(state) == 8
            and state[:1] == (3,)
            and state[1] in ("<", ">", "|")
            and state[2:5] == (None, None, None)
            and state[5:] == (-1, -1, 0)
        ):
            raise Refused("numpy.dtype with fields or flags")
        self.order = state[1]


def _scalar(kind: Any, data: Any) -> Any:
    if not (isinstance(kind, _DataType) and isinstance(data, bytes)):
        raise Refused("numpy.dtype with objects")
    # By the form of our own, which has the checks.
    name = (kind.order + kind.code).encode()
    return plain_data.decode(
        plain_data.FORMAT + b"g" + bytes([len(name)]) + name + bytes([0]) + data
    )


def _fraction(numerator: Any, denominator: Any = None) -> Fraction:
    """Makes one of two numbers, or of both in a text."""
    if denominator is None:
        match = re.fullmatch(r"(-?[0-9]{1,4000})(?:/([0-9]{1,4000}))?", _checked(numerator, str))
        if match is None:
            raise Refused(f"fractions.Fraction {numerator[:50]!r}")
        numerator, denominator = int(match[1]), int(match[2] or 1)
    parts = (_checked(numerator, int), _checked(denominator, int))
    if max(part.bit_length() for part in parts) > 1 << 15:
        raise Refused("fractions.Fraction of long numbers")
    return Fraction(*parts)


def _zone(key: Any, from_cache: Any = True) -> ZoneInfo:
    if not re.fullmatch(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*", _checked(key, str)):
        raise Refused(f"zoneinfo.ZoneInfo {key!r}")
    return ZoneInfo(key)


def _row(names: Any, values: Any) -> Row:
    row = Row(*_checked(values, tuple))
    names = _checked(names, (list, tuple))
    if len(names) != len(row) or not all(isinstance(name, str) for name in names):
        raise Refused("pyspark.sql.types.Row of other names than values")
    row.__fields__ = list(names)
    return row


def _deque(values: Any = (), maxlen: Any = None) -> deque[Any]:
    return deque(_checked(values, (list, tuple)), _checked(maxlen, (int, type(None))))


def _attribute(owner: Any, name: Any) -> _Plain:
    """The one that time zones are pickled with."""
    if owner is ZoneInfo and name == "_unpickle":
        return _Plain(_zone)
    raise Refused(f"builtins.getattr of {str(name)[:100]}")


def _defaultdict(factory: Any = None) -> defaultdict[Any, Any]:
    if factory is not None and factory not in plain_data.CLASSES.values():
        raise Refused("collections.defaultdict of another class")
    return defaultdict(factory)


def _checked(value: Any, kind: type | tuple[type, ...]) -> Any:
    if not isinstance(value, kind):
        raise Refused(f"plain data of {type(value).__name__}")
    return value


def _of(kind: Any, *types: Any) -> _Plain:
    """A class that takes only arguments of these types, which need no other check."""

    def call(*arguments: Any) -> Any:
        return kind(*(_checked(argument, types) for argument in arguments))

    return _Plain(call, kind)


def _uncalled(kind: Any) -> _Plain:
    """A class that pickles of protocol 4 name and don't call, for they have operations for it."""

    def call(*arguments: Any) -> Any:
        raise Refused(f"{kind.__module__}.{kind.__name__}, called")

    return _Plain(call, kind)


def _moment(kind: Any) -> _Plain:
    """A date or time of its bytes, which the class itself does not check, and a time zone."""

    def call(*arguments: Any) -> Any:
        return kind(*(_checked(each, (bytes, timezone, ZoneInfo)) for each in arguments)).replace()

    return _Plain(call, kind)


_PLAIN: dict[str, _Plain] = {
    **{f"builtins.{k.__name__}": _uncalled(k) for k in (bool, dict, float, int, list, str, tuple)},
    **{f"builtins.{k.__name__}": _uncalled(k) for k in (bytes, frozenset, set)},
    "builtins.bytearray": _Plain(lambda data=b"": bytearray(_checked(data, bytes)), bytearray),
    "builtins.complex": _of(complex, float),
    "builtins.getattr": _Plain(_attribute),
    "collections.Counter": _Plain(lambda values: Counter(_checked(values, dict)), Counter),
    "collections.OrderedDict": _of(OrderedDict, ()),
    "collections.defaultdict": _Plain(_defaultdict, defaultdict),
    "collections.deque": _Plain(_deque, deque),
    "datetime.date": _moment(date),
    "datetime.datetime": _moment(datetime),
    "datetime.time": _moment(time),
    "datetime.timedelta": _of(timedelta, int),
    "datetime.timezone": _of(timezone, timedelta, str),
    "decimal.Decimal": _of(Decimal, str),
    "fractions.Fraction": _Plain(_fraction, Fraction),
    "keystate._worker.pickles.plain_data.decode": _Plain(
        lambda data: plain_data.decode(_checked(data, bytes))
    ),
    "numpy._core.multiarray.scalar": _Plain(_scalar),
    "numpy.core.multiarray.scalar": _Plain(_scalar),
    "numpy.dtype": _Plain(_DataType),
    "pyspark.sql.types.Row": _uncalled(Row),
    "pyspark.sql.types._create_row": _Plain(_row),
    "uuid.UUID": _Plain(lambda: UUID.__new__(UUID), UUID),
    "zoneinfo.ZoneInfo": _Plain(_zone, ZoneInfo),
}


class PickleReader:
    """Reads one pickle.

    Args:
        find: what it may name besides plain data.
    """

    def __init__(self, data: bytes, find: Find) -> None:
        self._data = data
        self._find = find
        self._stack: list[Any] = []
        self._memo: list[Any] = []
        self._found: dict[int, Any] = {}  # what it has named and may call, by identity
        self._made: dict[int, Any] = {}  # what these made, by identity
        self._tables: dict[int, tuple[Any, Table]] = {}  # with what they are of, by identity
        self._comparisons = Comparisons()
        self._steps = 10_000 + 16 * len(data)

    def read(self) -> Any:
        """What is in it.

        Raises:
            Refused: it names or does what is not permitted.
            Exception: it is damaged, or an object can't be made.
        """
        for operation, argument, at in pickletools.genops(self._data):
            name = operation.name
            if name == "STOP":
                value = self._value()
                if self._stack or at != len(self._data) - 1:
                    raise ValueError("it has more than one value")
                self._walk(value)
                return value
            if name in _CONSTANTS:
                self._stack.append(_CONSTANTS[name])
            elif name in _LITERALS:
                self._stack.append(argument)
            elif name not in _IGNORED:
                do = _OPERATIONS.get(name)
                if do is None:
                    raise Refused(f"the operation {name}, which no pickle of Keystate has")
                do(self, argument)
        raise ValueError("it has no end")

    def _pop(self) -> Any:
        value = self._stack.pop()
        if value is _MARK:
            raise ValueError("it takes a value that is not there")
        return value

    def _pop_mark(self) -> list[Any]:
        at = len(self._stack) - 1
        while self._stack[at] is not _MARK:
            at -= 1
            if at < 0:
                raise ValueError("it has no mark")
        values = self._stack[at + 1 :]
        del self._stack[at:]
        return [self._plainly(value) for value in values]

    def _plainly(self, value: Any) -> Any:
        """A class of plain data as itself, for what is kept."""
        if not isinstance(value, _Plain):
            return value
        if value.named is None:
            raise Refused("a function")
        return value.named

    def _value(self) -> Any:
        return self._plainly(self._pop())

    def _memoize(self, argument: Any) -> None:
        self._memo.append(self._pop())
        self._stack.append(self._memo[-1])

    def _name(self, argument: Any) -> None:
        name, module = self._pop(), self._pop()
        if not (isinstance(name, str) and isinstance(module, str)):
            raise ValueError("it names something without a text")
        plain = _PLAIN.get(f"{module}.{name}")
        if plain is not None:
            self._stack.append(plain)
            return
        found = self._find(module, name)
        self._found[id(found)] = found
        self._stack.append(found)

    def _tuple(self, size: int) -> None:
        values = [self._value() for _ in range(size)]
        self._stack.append(tuple(reversed(values)))

    def _frozenset(self, argument: Any) -> None:
        values = self._pop_mark()
        self._check_keys(None, values)
        self._stack.append(frozenset(values))

    def _append(self, values: list[Any]) -> None:
        target = self._stack[-1]
        if type(target) in (list, deque):
            target.extend(values)
        else:
            for value in values:
                self._own(target).append(value)

    def _set_items(self, values: list[Any]) -> None:
        target = self._stack[-1]
        if type(target) not in _DICTS:
            self._own(target)
        keys = values[::2]
        if len(values) % 2:
            raise ValueError("it has a key without a value")
        self._check_keys(target, keys)
        for key, value in zip(keys, values[1::2]):
            target[key] = value

    def _set_item(self, argument: Any) -> None:
        value, key = self._value(), self._value()
        self._set_items([key, value])

    def _add_items(self, argument: Any) -> None:
        values = self._pop_mark()
        target = self._stack[-1]
        if type(target) is not set:
            raise Refused(f"an addition to {type(target).__name__}")
        self._check_keys(target, values)
        target.update(values)

    def _reduce(self, argument: Any) -> None:
        arguments, function = self._pop(), self._pop()
        self._call(function, arguments, {})

    def _new(self, argument: Any) -> None:
        arguments, cls = self._pop(), self._pop()
        self._make(cls, arguments, {})

    def _new_with_names(self, argument: Any) -> None:
        named, arguments, cls = self._pop(), self._pop(), self._pop()
        self._make(cls, arguments, _checked(named, dict))

    def _make(self, cls: Any, arguments: Any, named: dict[str, Any]) -> None:
        if isinstance(cls, _Plain):
            self._call(cls, arguments, named)
        elif isinstance(cls, type):
            self._call(cls, (cls, *_checked(arguments, tuple)), named, cls.__new__)
        else:
            raise Refused(f"an object of {type(cls).__name__}")

    def _call(self, named: Any, arguments: Any, also: dict[str, Any], function: Any = None) -> None:
        """Calls what was named, or a function of it."""
        arguments = _checked(arguments, tuple)
        if isinstance(named, _Plain):
            self._pay(arguments)
            self._stack.append(named.call(*arguments, **also))
        elif id(named) in self._found:
            made = (function or named)(*arguments, **also)
            self._made[id(made)] = made
            self._stack.append(made)
        else:
            raise Refused(f"a call of {type(named).__name__}")

    def _build(self, argument: Any) -> None:
        state = self._value()
        target = self._stack[-1]
        if isinstance(target, _DataType):
            target.set(state)
        elif type(target) is UUID:
            made = UUID(int=_checked(_checked(state, dict).get("int"), int))
            object.__setattr__(target, "int", made.int)
            object.__setattr__(target, "is_safe", SafeUUID.unknown)
        else:
            _set_state(self._own(target), state)

    def _own(self, target: Any) -> Any:
        """An object that the pickle has made of a permitted class, and so may change."""
        if (
            self._made.get(id(target), _MARK) is not target
            or id(target) in self._found
            or isinstance(target, (type, Enum))
        ):
            what = target.named if isinstance(target, _Plain) else target
            name = getattr(what, "__qualname__", type(what).__qualname__)
            raise Refused(f"a change of {name}")
        return target

    def _check_keys(self, target: Any, keys: list[Any]) -> None:
        for key in keys:
            self._walk(key)
        table = Table()
        if target is not None:
            table = self._tables.setdefault(id(target), (target, table))[1]
        self._comparisons.add(keys, table)
        self._comparisons.check(len(self._data))

    def _pay(self, arguments: tuple[Any, ...]) -> None:
        """For a copy of these."""
        self._walk([each for each in arguments if not isinstance(each, _DataType)])
        self._step(sum(len(each) for each in arguments if isinstance(each, (bytes, str))))

    def _walk(self, value: Any) -> None:
        """Goes through it as often as it is referred to, as what hashes or copies it will."""
        level, depth = [value], 0
        while level:
            below: list[Any] = []
            for each in level:
                if isinstance(each, _DataType):
                    raise Refused("numpy.dtype")
                if type(each) in _DICTS:
                    self._step(2 * len(each))
                    below.extend(each)
                    below.extend(each.values())
                elif type(each) in _LISTS or isinstance(each, (tuple, frozenset)):
                    self._step(len(each))
                    below.extend(each)
            depth += 1
            if depth > _DEPTH:
                raise TooMuch(f"it is nested more than {_DEPTH} deep, or contains itself")
            level = below

    def _step(self, steps: int) -> None:
        self._steps -= steps
        if self._steps < 0:
            raise TooMuch("it refers to the same objects too often, or contains itself")


def _set_state(made: Any, state: Any) -> None:
    """Does to an object what Python's unpickler does."""
    if hasattr(made, "__setstate__"):
        made.__setstate__(state)
        return
    attributes, slots = state, None
    if isinstance(state, tuple) and len(state) == 2:
        attributes, slots = state
    if attributes:
        made.__dict__.update(_checked(attributes, dict))
    for name, value in _checked(slots or {}, dict).items():
        if _checked(name, str).startswith("__"):
            raise Refused(f"a change of {name}")
        setattr(made, name, value)


_IGNORED = frozenset({"PROTO", "FRAME"})
_CONSTANTS: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "MARK": _MARK}
_LITERALS = frozenset(
    {
        *("BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT"),
        *("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
        *("SHORT_BINBYTES", "BINBYTES", "BINBYTES8", "BYTEARRAY8"),
    }
)


def _pushes(make: Callable[[PickleReader], Any]) -> Callable[[PickleReader, Any], None]:
    return lambda reader, argument: reader._stack.append(make(reader))


_OPERATIONS: dict[str, Callable[[PickleReader, Any], Any]] = {
    "MEMOIZE": PickleReader._memoize,
    "BINGET": lambda reader, number: reader._stack.append(reader._memo[number]),
    "LONG_BINGET": lambda reader, number: reader._stack.append(reader._memo[number]),
    "STACK_GLOBAL": PickleReader._name,
    "EMPTY_TUPLE": _pushes(lambda reader: ()),
    "EMPTY_LIST": _pushes(lambda reader: []),
    "EMPTY_DICT": _pushes(lambda reader: {}),
    "EMPTY_SET": _pushes(lambda reader: set()),
    "TUPLE": _pushes(lambda reader: tuple(reader._pop_mark())),
    "TUPLE1": lambda reader, argument: reader._tuple(1),
    "TUPLE2": lambda reader, argument: reader._tuple(2),
    "TUPLE3": lambda reader, argument: reader._tuple(3),
    "FROZENSET": PickleReader._frozenset,
    "APPEND": lambda reader, argument: reader._append([reader._value()]),
    "APPENDS": lambda reader, argument: reader._append(reader._pop_mark()),
    "SETITEM": PickleReader._set_item,
    "SETITEMS": lambda reader, argument: reader._set_items(reader._pop_mark()),
    "ADDITEMS": PickleReader._add_items,
    "POP": lambda reader, argument: reader._stack.pop(),
    "POP_MARK": lambda reader, argument: reader._pop_mark(),
    "REDUCE": PickleReader._reduce,
    "NEWOBJ": PickleReader._new,
    "NEWOBJ_EX": PickleReader._new_with_names,
    "BUILD": PickleReader._build,
}
