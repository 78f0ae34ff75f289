"""Objects of dataclasses: made by their class, or restored from their fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

#: Makes an object of the values of all fields, in their order.
Make = Callable[[Any], Any]


def restorer(cls: Any) -> Make:
    """A function that restores objects from fields without ``__init__``, like copy and pickle."""
    names = [field.name for field in dataclasses.fields(cls)]
    scope: dict[str, Any] = {"cls": cls, "new": cls.__new__, "put": object.__setattr__}
    lines = ["def restore(row):", "made = new(cls)"]
    if names and cls.__setattr__ is object.__setattr__:
        lines.append("".join(f"made.{name}, " for name in names) + "= row")
    elif names:
        lines.append("".join(f"v{i}, " for i in range(len(names))) + "= row")
        lines += [f"put(made, {name!r}, v{i})" for i, name in enumerate(names)]
    exec("\n ".join([*lines, "return made"]), scope)
    made: Make = scope["restore"]
    return made


def why_not_restored(cls: Any) -> str | None:
    """Why objects of a class can't be restored; ``None`` if they can."""
    try:
        cls.__new__(cls)
    except Exception as e:
        return f"{cls.__name__} makes no object without arguments of __new__: {e}"
    return None


def constructor(cls: Any) -> Make:
    """A function that makes objects by calling their class."""
    scope: dict[str, Any] = {"cls": cls}
    fields = enumerate(dataclasses.fields(cls))
    given = ", ".join(f"{field.name}=row[{i}]" for i, field in fields)
    make: Make = eval(f"lambda row: cls({given})", scope)
    return make


def runs_code(cls: Any) -> bool:
    """Whether the class does more, when it makes an object, than set the fields that are given."""
    if type(cls).__call__ is not type.__call__ or cls.__new__ is not object.__new__:
        return True
    parameters = cls.__dataclass_params__
    if not parameters.frozen and cls.__setattr__ is not object.__setattr__:
        return True
    # An __init__ that was generated is that of a class with the same fields and nothing else.
    fields = [(each.name, object, _alike(each)) for each in dataclasses.fields(cls)]
    try:
        twin = dataclasses.make_dataclass("Twin", fields, frozen=parameters.frozen)
        return _instructions(cls) != _instructions(twin)
    except (AttributeError, TypeError):
        return True


def _alike(field: dataclasses.Field[Any]) -> Any:
    # Not by identity: a class that was pickled by its value has another MISSING.
    missing = type(dataclasses.MISSING)
    told: dict[str, Any] = {"init": field.init, "kw_only": bool(field.kw_only)}
    if not isinstance(field.default_factory, missing):
        told["default_factory"] = list
    elif not isinstance(field.default, missing):
        told["default"] = None
    return dataclasses.field(**told)


def _instructions(cls: Any) -> tuple[Any, ...]:
    code = cls.__init__.__code__
    return code.co_code, code.co_names, code.co_varnames, code.co_consts


def values_of(value: Any, names: tuple[str, ...]) -> tuple[Any, ...] | None:
    """The values of a dataclass's object; ``None`` if it lacks a field, or is no such object."""
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return None
    try:
        return tuple(getattr(value, name) for name in names)
    except AttributeError:
        return None
