"""Arrays on their way in: lists, padded, flat, NumPy and torch become one form; and the arrays that views are.

The one form is *rows*: the values of all rows behind each other, where each row begins, and which rows have any. Its arrays
are always new, so that nobody writes to them while the store reads them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from . import _rollstore as native
from .errors import DTypeError, InvalidError

if TYPE_CHECKING:
    import torch  # pyright: ignore[reportMissingImports]

try:
    import ml_dtypes  # pyright: ignore[reportMissingTypeStubs, reportMissingImports, reportUnknownVariableType]

    bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
except ImportError:
    bfloat16 = np.dtype(np.uint16)
"""The type of bfloat16 columns as arrays: that of ``ml_dtypes`` where it is installed, else their bits as uint16."""

U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

DTYPES = ("float32", "float16", "bfloat16", "int32", "int64", "uint32", "uint8")
"""The types of columns."""


class View(np.ndarray[Any, Any]):
    """A read-only array that lies in the store's files: no copy was made.

    It keeps its segment mapped for as long as it, or a slice of it, lives: after the store is closed, and after compaction
    removed the file. Who wants to write takes :meth:`writable` or :meth:`torch`: never ``torch.from_numpy``, since torch writes
    through a read-only array.
    """

    def writable(self) -> npt.NDArray[Any]:
        """An array of these values, safe to write to: what is written stays in it. Shape and type of this one.

        From 256 KiB on nothing is copied: the values are mapped once more, privately, and the system copies a page when it is
        written to. Smaller ones are copied, which is cheaper; and so are slices with gaps, values whose file was removed by
        compaction, and those of a store that reads copies.
        """
        return writable(self)

    def torch(self) -> torch.Tensor:  # pyright: ignore[reportUnknownParameterType]
        """A tensor over :meth:`writable`, without a warning. bfloat16 becomes torch's own."""
        return to_torch(self)  # pyright: ignore[reportUnknownVariableType]

    def __dlpack__(self, **options: Any) -> Any:
        # Who takes an array over by DLPack may forget that it is read-only, and a write into a read-only map ends the process.
        return writable(self).__dlpack__(**options)  # pyright: ignore[reportUnknownMemberType]

    def __reduce__(self) -> Any:
        # In another process there is no map to look into.
        return np.array(self, copy=True).view(np.ndarray).__reduce__()


def writable(view: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The values of a view, or of a slice of one, in memory that nobody else sees."""
    owner: Any = view
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if not isinstance(owner, native.Rollout) or not view.flags.c_contiguous or not view.size:
        return np.array(view, copy=True, subok=False)
    own = owner.writable(view.view(np.ndarray).reshape(-1).view(np.uint8))
    return own.view(view.dtype).reshape(view.shape)


def to_torch(view: npt.NDArray[Any]) -> torch.Tensor:  # pyright: ignore[reportUnknownParameterType]
    """A tensor of a view's values, in memory that nobody else sees."""
    import torch as torch_module  # pyright: ignore[reportMissingImports]

    torch: Any = torch_module
    own = writable(view)
    if own.dtype == bfloat16:
        # Without ml_dtypes bfloat16 lies in uint16, which is no type of the store's: nothing else does.
        return torch.from_numpy(own.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(own)


class Rows(NamedTuple):
    """The rows of one column."""

    dtype: str
    values: npt.NDArray[Any]
    """The values of all rows behind each other. Shape ``[sum of lengths]``."""
    offsets: I64
    """Where each row begins. Shape ``[rows + 1]``, in values."""
    present: Bools | None
    """Which rows have values at all. Shape ``[rows]``; ``None`` for all of them."""

    def as_bytes(self) -> npt.NDArray[np.uint8]:
        """The values' bytes."""
        return self.values.view(np.uint8) if self.values.size else np.empty(0, np.uint8)

    @property
    def lens(self) -> I64:
        """The number of values in each row."""
        return np.diff(self.offsets)


def is_tensor(value: object) -> bool:
    """Whether it is a torch tensor, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def as_array(value: Any, what: str, row: int | None = None) -> npt.NDArray[Any]:
    """An array, without a copy where that can be; a torch tensor's values where it lies on the CPU."""
    if is_tensor(value):
        tensor: Any = value.detach()
        if tensor.device.type != "cpu":
            raise InvalidError(f"{what} lies on {tensor.device}; move it to the CPU first: values.cpu()", row=row)
        if str(tensor.dtype) == "torch.bfloat16":
            return tensor.contiguous().view(sys.modules["torch"].int16).numpy().view(np.uint16).view(_BF16_BITS)
        return tensor.contiguous().numpy()
    try:
        return np.asarray(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise DTypeError(f"{what} is no array of numbers: {error}", row=row) from None


_BF16_BITS = np.dtype((np.void, 2)) if bfloat16 == np.dtype(np.uint16) else bfloat16
"""What tensors of bfloat16 become: not uint16, which would be numbers."""


def dtype_name(dtype: np.dtype[Any]) -> str:
    """The name of a type as the store spells it."""
    return "bfloat16" if dtype == _BF16_BITS else cast("str", dtype.name)


def _cast(array: npt.NDArray[Any], wanted: str | None, what: str, row: int | None) -> npt.NDArray[Any]:
    """Values of a type that columns take: of the one that is wanted, if no value changes by it."""
    name = dtype_name(array.dtype)
    if array.dtype.kind == "O" or array.dtype.kind in "USMm":
        raise DTypeError(f"{what} holds {array.dtype} values, which are no numbers", row=row)
    if wanted is None:
        if name in DTYPES:
            return array
        if name == "bool":
            return array.astype(np.uint8)
        raise DTypeError(f"{what} holds {name} values; a column is of {', '.join(DTYPES)}", row=row)
    if name == wanted:
        return array
    if wanted == "float32":
        return _to_float32(array, name, what, row)
    return _to_whole(array, np.dtype(wanted), what, row)


def _to_float32(array: npt.NDArray[Any], name: str, what: str, row: int | None) -> npt.NDArray[Any]:
    if name == "bfloat16":
        return (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    if name == "float16" or array.size == 0:
        return array.astype(np.float32)
    raise DTypeError(f"{what} holds {name} values, it takes float32; cast them yourself if you mean to", row=row)


def _to_whole(array: npt.NDArray[Any], wanted: np.dtype[Any], what: str, row: int | None) -> npt.NDArray[Any]:
    if array.size == 0:
        return array.astype(wanted)
    if array.dtype.kind not in "iub":
        raise DTypeError(f"{what} holds {array.dtype.name} values, it takes {wanted.name}", row=row)
    limits = np.iinfo(wanted)
    bad = (array < limits.min) | (array > limits.max) if array.dtype.kind != "b" else np.zeros(array.shape, np.bool_)
    if bad.any():
        at = tuple(int(place) for place in np.argwhere(bad)[0])
        where = at[0] if len(at) == 1 else list(at)
        value = int(array[at])
        if row is None and len(at) > 1:
            row = at[0]
        raise InvalidError(f"{what}[{where}] is {value}, which no {wanted.name} holds", row=row)
    return array.astype(wanted)


def number_array(value: Any, count: int, dtype: str, what: str) -> npt.NDArray[Any]:
    """One number a row: an array of so many, or one number for all. A new array."""
    is_one = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    array = _numbers([value] * count if is_one else value, dtype, what)
    if array.shape != (count,):
        raise InvalidError(f"{what} has shape {list(array.shape)}, there are {count} rows")
    return array


_UINT64 = np.dtype(np.uint64)


def id_array(ids: Any, what: str = "ids") -> U64:
    """Ids as the store takes them. String keys become the ids that stand for them."""
    if type(ids) is np.ndarray and ids.dtype == _UINT64 and ids.ndim == 1:
        return np.ascontiguousarray(ids)  # the native half copies them
    if isinstance(cast("object", ids), (int, str, np.integer)):
        raise InvalidError(f"{what} is {ids!r}; give a list or array, also of one")
    if isinstance(ids, Sequence) and ids and isinstance(ids[0], str):
        from ._rollstore import id_from_key

        return np.array([id_from_key(key) for key in cast("Sequence[str]", ids)], np.uint64)
    return _numbers(ids, "uint64", what)


def _numbers(value: Any, dtype: str, what: str) -> npt.NDArray[Any]:
    if not is_tensor(value) and not isinstance(value, np.ndarray):
        numbers: list[Any] = list(cast("Iterable[Any]", value))
        for row, number in enumerate(numbers):
            if isinstance(number, (int, np.integer)) and dtype in ("uint64", "int64"):
                limits, whole = np.iinfo(dtype), cast("int", number)
                if not limits.min <= int(whole) <= limits.max:
                    raise InvalidError(f"{what} is {whole}, it must be {limits.min} to {limits.max}", row=row)
        if dtype == "uint64" and all(isinstance(number, (int, np.integer)) for number in numbers):
            return np.array([int(number) for number in numbers], np.uint64)
        value = numbers
    array = as_array(value, what)
    if array.ndim != 1:
        raise InvalidError(f"{what} has shape {list(array.shape)}, it must have one dimension")
    if dtype in ("uint64", "int64"):
        if array.dtype.kind not in "iu" and array.size:
            raise DTypeError(f"{what} holds {array.dtype.name} values, it takes whole numbers")
        if dtype == "uint64" and array.dtype.kind == "i" and array.size and array.min() < 0:
            row = int(np.argmax(array < 0))
            raise InvalidError(f"{what} is {int(array[row])}, it must not be negative", row=row)
        return array.astype(dtype)
    if array.dtype.kind not in "iuf" and array.size:
        raise DTypeError(f"{what} holds {array.dtype.name} values, it takes numbers")
    return array.astype(dtype)


def kept_of(lengths: Any, count: int, what: str) -> I64 | Bools:
    """What counts of padded rows: their lengths, for rows that are padded on the right, or a mask ``[rows, T]``."""
    array = as_array(lengths, what)
    if array.ndim == 2:
        if array.shape[0] != count:
            raise InvalidError(f"{what} has {array.shape[0]} rows, there are {count}")
        mask = array.astype(np.bool_)
        begins = np.count_nonzero(mask[:, 1:] & ~mask[:, :-1], axis=1) + (mask[:, 0] if mask.shape[1] else 0)
        if (begins > 1).any():
            raise InvalidError(f"{what} has holes; it says which places are padding", row=int(np.argmax(begins > 1)))
        return mask
    return number_array(lengths, count, "int64", what)


def rows_of(value: Any, count: int, wanted: str | None, what: str, kept: I64 | Bools | None = None) -> Rows:
    """The rows of a column, from any of its forms.

    A tuple ``(values, offsets)`` is flat: ``values[offsets[i]:offsets[i + 1]]`` is row ``i``. An array of two dimensions is
    padded, and ``kept`` says what of it counts. Else it is a list with one array a row, in which ``None`` stands for a row
    that has none.
    """
    if isinstance(value, Rows):
        return value
    if isinstance(value, tuple):
        return _from_flat(cast("tuple[Any, ...]", value), count, wanted, what)
    if is_tensor(value) or isinstance(value, np.ndarray):
        array = as_array(value, what)
        if array.ndim == 2:
            return _from_padded(array, count, wanted, what, kept)
        if array.ndim != 1 or array.dtype != np.object_:
            raise InvalidError(
                f"{what} has shape {list(array.shape)}; give a list of arrays, [{count}, T], or a pair of values and offsets"
            )
    return _from_list(list(cast("Iterable[Any]", value)), count, wanted, what)


def _from_flat(pair: tuple[Any, ...], count: int, wanted: str | None, what: str) -> Rows:
    if len(pair) != 2:
        raise InvalidError(f"{what} is a tuple of {len(pair)}: a tuple is (values, offsets); give rows as a list")
    given, offsets = as_array(pair[0], what), as_array(pair[1], f"offsets of {what}")
    if given.ndim != 1 or offsets.shape != (count + 1,) or offsets.dtype.kind not in "iu":
        raise InvalidError(
            f"{what} is a tuple: values of one dimension and {count + 1} offsets; give rows as a list"
        )
    offsets = offsets.astype(np.int64)
    if offsets[0] != 0 or offsets[-1] != given.shape[0] or (np.diff(offsets) < 0).any():
        raise InvalidError(f"offsets of {what} must rise from 0 to {given.shape[0]}, the number of values")
    values = _own(_cast(given, wanted, what, None), given)
    return Rows(wanted or dtype_name(values.dtype), values, offsets, None)


def _from_padded(
    array: npt.NDArray[Any], count: int, wanted: str | None, what: str, kept: I64 | Bools | None
) -> Rows:
    if array.shape[0] != count:
        raise InvalidError(f"{what} has {array.shape[0]} rows, there are {count}")
    if kept is None:
        raise InvalidError(f"{what} is padded: give the rows' lengths")
    if kept.ndim == 1:
        lens = kept.astype(np.int64)
        bad = (lens > array.shape[1]) | (lens < 0)
        if bad.any():
            row = int(np.argmax(bad))
            raise InvalidError(f"{what} has rows of {array.shape[1]}, the row's length is {int(lens[row])}", row=row)
        mask = np.asarray(np.arange(array.shape[1])[None, :] < lens[:, None], np.bool_)
    else:
        if kept.shape != array.shape:
            raise InvalidError(f"{what} has shape {list(array.shape)}, its mask {list(kept.shape)}")
        mask = kept.astype(np.bool_)
        lens = mask.sum(axis=1, dtype=np.int64)
    if array.dtype.kind in "iu" and wanted is not None and array.dtype.name != wanted:
        # Padding may be a number that no token id is (-100): it is not looked at.
        array = np.where(mask, array, array.dtype.type(0))
    values = _cast(array, wanted, what, None)[mask]
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lens, dtype=np.int64)])
    return Rows(wanted or dtype_name(values.dtype), values, offsets, None)


def _from_list(rows: list[Any], count: int, wanted: str | None, what: str) -> Rows:
    if len(rows) != count:
        raise InvalidError(f"{what} has {len(rows)} rows, there are {count}")
    alike = _from_arrays_alike(rows, wanted, what)
    if alike is not None:
        return alike
    arrays: list[npt.NDArray[Any]] = []
    present = np.ones(count, np.bool_)
    name = wanted
    for row, given in enumerate(rows):
        if given is None:
            present[row] = False
            continue
        array = as_array(given, what, row)
        if array.ndim != 1:
            raise InvalidError(f"{what} has shape {list(array.shape)}, a row has one dimension", row=row)
        plain = not (is_tensor(given) or isinstance(given, np.ndarray))
        if plain and wanted == "float32":
            array = _plain_floats(array, what, row)
        array = _cast(array, wanted, what, row)
        found = dtype_name(array.dtype)
        if name is not None and found != name:
            raise DTypeError(f"{what} holds {found} values, rows before it hold {name}", row=row)
        name = found
        arrays.append(array)
    lens = np.zeros(count, np.int64)
    lens[present] = [array.shape[0] for array in arrays]
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lens)])
    values = np.concatenate(arrays) if arrays else np.empty(0, name or "float32")
    return Rows(name or "float32", values, offsets, None if present.all() else present)


def _from_arrays_alike(rows: list[Any], wanted: str | None, what: str) -> Rows | None:
    """The rows where all are arrays of one type, which are checked and cast at once. ``None`` where they are others, or where
    one must be refused: which one that is, is found row by row.
    """
    if not all(isinstance(row, np.ndarray) and row.ndim == 1 for row in rows) or len({row.dtype for row in rows}) != 1:
        return None
    joined: npt.NDArray[Any] = np.concatenate(rows)
    try:
        values = _cast(joined, wanted, what, None)
    except InvalidError:
        return None
    ends = np.cumsum([row.shape[0] for row in rows], dtype=np.int64)
    return Rows(wanted or dtype_name(values.dtype), values, np.concatenate([np.zeros(1, np.int64), ends]), None)


def _plain_floats(array: npt.NDArray[Any], what: str, row: int) -> npt.NDArray[Any]:
    """Python's own floats are of double precision for want of another: they may become float32."""
    if array.dtype.kind not in "iuf" and array.size:
        raise DTypeError(f"{what} holds {array.dtype.name} values, it takes float32", row=row)
    return array.astype(np.float32)


def _own(array: npt.NDArray[Any], given: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The array, contiguous and nobody else's."""
    return np.array(array, copy=True, order="C") if np.shares_memory(array, given) else np.ascontiguousarray(array)
