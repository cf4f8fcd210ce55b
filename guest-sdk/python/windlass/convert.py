"""Between JSON bytes and typed Python values.

Reading follows the annotations: dataclasses, `list[T]`, `dict[str, T]`, `tuple`, `Optional`, unions, `Literal`, enums. What has no
annotation stays as JSON gave it. Writing takes all of these, and dates as ISO text.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime
import enum
import functools
import json
import types
import typing
from typing import Any

_UNIONS = (typing.Union, getattr(types, "UnionType", typing.Union))
_NUMBERS = {int: "a whole number", float: "a number", str: "a string", bool: "true or false"}


class Mismatch(ValueError):
    """The value is not of the type that was asked for. The message says where."""


def dumps(value: Any) -> bytes:
    """JSON, compact, UTF-8. A TypeError or ValueError says what cannot be written."""
    return json.dumps(value, default=_plain, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def loads(data: bytes, kind: Any = Any) -> Any:
    """Reads JSON as `kind`, or raises Mismatch."""
    try:
        value = json.loads(data)
    except ValueError as error:
        raise Mismatch(f"it is not JSON: {error}") from None
    return read(value, kind)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (datetime.datetime, datetime.date)):
        return value.isoformat()
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    raise TypeError(f"a {type(value).__name__} cannot be written as JSON")


def read(value: Any, kind: Any, at: str = "") -> Any:
    """`value`, as json.loads gave it, as a `kind`. `at` is the place, for messages."""
    if kind is Any or kind is None or isinstance(kind, typing.TypeVar):
        return value
    if kind is type(None):
        return _is(value is None, None, at, "null", value)
    origin = typing.get_origin(kind)
    if origin is typing.Annotated:
        return read(value, typing.get_args(kind)[0], at)
    if origin in _UNIONS:
        return _union(value, typing.get_args(kind), at)
    if origin is typing.Literal:
        choices = typing.get_args(kind)
        return _is(value in choices, value, at, "one of " + ", ".join(map(repr, choices)), value)
    if dataclasses.is_dataclass(kind):
        return _dataclass(value, kind, at)
    if kind in _NUMBERS:
        return _number(value, kind, at)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        try:
            return kind(value)
        except ValueError:
            raise Mismatch(_wrong(at, "one of " + ", ".join(repr(case.value) for case in kind), value)) from None
    if kind is datetime.datetime or kind is datetime.date:
        try:
            return kind.fromisoformat(value)
        except (TypeError, ValueError):
            raise Mismatch(_wrong(at, "an ISO date", value)) from None
    return _container(value, kind, origin or kind, at)


def _container(value: Any, kind: Any, origin: Any, at: str) -> Any:
    args = typing.get_args(kind)
    if typing.is_typeddict(kind):
        return _typed_dict(value, kind, at)
    if origin is tuple:
        _is(isinstance(value, list), None, at, "a list", value)
        if args and args[-1] is not Ellipsis:
            _is(len(value) == len(args), None, at, f"a list of {len(args)}", value)
            return tuple(read(item, each, f"{at}[{i}]") for i, (item, each) in enumerate(zip(value, args)))
        return tuple(read(item, args[0] if args else Any, f"{at}[{i}]") for i, item in enumerate(value))
    if origin in (list, set, frozenset, collections.abc.Sequence, collections.abc.Iterable):
        _is(isinstance(value, list), None, at, "a list", value)
        items = [read(item, args[0] if args else Any, f"{at}[{i}]") for i, item in enumerate(value)]
        return origin(items) if origin in (set, frozenset) else items
    if origin in (dict, collections.abc.Mapping, collections.abc.MutableMapping):
        _is(isinstance(value, dict), None, at, "an object", value)
        if not args:
            return value
        return {_key(name, args[0], at): read(item, args[1], _inside(at, name)) for name, item in value.items()}
    if origin is object:
        return value
    raise TypeError(f"a payload or state cannot be read as {kind!r}")


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    """The types of the fields. To make types of annotations takes a millisecond, so it is done once."""
    return typing.get_type_hints(kind, include_extras=True)


def prepare(kind: Any) -> None:
    """Looks at all the types in a type, so that reading has nothing left to find out: at build time, for the snapshot."""
    for inner in typing.get_args(kind):
        prepare(inner)
    if (dataclasses.is_dataclass(kind) or typing.is_typeddict(kind)) and kind not in _prepared:
        _prepared.add(kind)
        for inner in _hints(kind).values():
            prepare(inner)


_prepared: set[Any] = set()


def _dataclass(value: Any, kind: Any, at: str) -> Any:
    _is(isinstance(value, dict), None, at, "an object", value)
    hints = _hints(kind)
    found = {}
    for field in dataclasses.fields(kind):
        if not field.init:
            continue
        if field.name in value:
            found[field.name] = read(value[field.name], hints[field.name], _inside(at, field.name))
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise Mismatch(f"{_inside(at, field.name)} is missing")
    return kind(**found)


def _typed_dict(value: Any, kind: Any, at: str) -> Any:
    _is(isinstance(value, dict), None, at, "an object", value)
    for name in sorted(kind.__required_keys__):
        if name not in value:
            raise Mismatch(f"{_inside(at, name)} is missing")
    hints = _hints(kind)
    return {name: read(item, hints.get(name, Any), _inside(at, name)) for name, item in value.items()}


def _union(value: Any, kinds: tuple[Any, ...], at: str) -> Any:
    if value is None and type(None) in kinds:
        return None
    wrong: list[str] = []
    for kind in kinds:
        if kind is type(None):
            continue
        try:
            return read(value, kind, at)
        except Mismatch as error:
            wrong.append(str(error))
    raise Mismatch(wrong[0] if len(wrong) == 1 else "; or ".join(wrong))


def _number(value: Any, kind: Any, at: str) -> Any:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    # JSON has one kind of numbers, and 3.0 is a whole one.
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)
    fits = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    return _is(fits, value, at, _NUMBERS[kind], value)


def _key(name: str, kind: Any, at: str) -> Any:
    try:
        return int(name) if kind is int else name
    except ValueError:
        raise Mismatch(_wrong(at, "an object with numbers as names", name)) from None


def _is(fits: bool, answer: Any, at: str, wanted: str, value: Any) -> Any:
    if not fits:
        raise Mismatch(_wrong(at, wanted, value))
    return answer


def _wrong(at: str, wanted: str, value: Any) -> str:
    shown = json.dumps(value, ensure_ascii=False, default=str)
    if len(shown) > 60:
        shown = shown[:57] + "..."
    return f"{at or 'it'} should be {wanted}, and is {shown}"


def _inside(at: str, name: str) -> str:
    return f"{at}.{name}" if at else f"`{name}`" if not name.isidentifier() else name
