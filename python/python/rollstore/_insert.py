"""What an insert takes: its columns by name, and their way into the one form that the native half knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypedDict, cast

import numpy as np

from . import _rollstore as native
from ._arrays import I64, Bools, Rows, id_array, kept_of, number_array, rows_of
from .errors import InvalidError

WELL_KNOWN = {
    "prompt_ids": "uint32",
    "completion_ids": "uint32",
    "loss_mask": "uint8",
    "old_logps": "float32",
    "sampler_logps": "float32",
    "kl_ref_logps": "float32",
}
"""The well-known columns and their types."""


class Provenance(NamedTuple):
    """How a log-prob column was made. Raw and processed log-probs of one token differ, so that asking for one and getting the
    other is an error."""

    engine: str
    """The engine that computed them, for example ``"vllm 0.11"``."""
    kind: Literal["raw", "processed"] = "raw"
    """``"raw"`` for ``log_softmax(logits)``, ``"processed"`` after temperature, top-p or top-k."""
    temperature: float = 1.0
    top_p: float = 1.0
    """Nucleus mass; 1 where it was off."""
    top_k: int = 0
    """Number of candidates kept; 0 where it was off."""


class Columns(TypedDict, total=False):
    """What an insert takes beside ids and step; :meth:`RolloutStore.insert` says what each is."""

    completion_ids: Any
    prompt_ids: Any
    old_logps: Any
    old_version: Any
    sampler_logps: Any
    kl_ref_logps: Any
    kl_ref_version: Any
    loss_mask: Any
    group_ids: Any
    rewards: Any
    advantages: Any
    columns: Mapping[str, Any] | None
    lengths: Any
    prompt_lengths: Any
    column_lengths: Mapping[str, Any] | None
    metadata: Sequence[bytes] | None
    version_spans: Sequence[Sequence[tuple[int, int]]] | None
    provenance: Mapping[str, Provenance] | None


def insert_args(ids: Any, created_step: Any, given: Columns) -> native.InsertArgs:
    """All of it, as the native half takes it."""
    unknown = given.keys() - Columns.__annotations__.keys()
    if unknown:
        raise TypeError(f"there is no argument {min(unknown)!r}; columns of your own go into columns={{...}}")
    keys = list(ids) if _are_keys(ids) else None
    numbers = id_array(ids)
    count = len(numbers)

    def each(name: str, dtype: str) -> Any:
        value = given.get(name)
        return None if value is None else number_array(value, count, dtype, name)

    def listed(name: str) -> list[Any] | None:
        values = cast("Sequence[Any] | None", given.get(name))
        if values is not None and len(values) != count:
            raise InvalidError(f"{name} has {len(values)} entries, there are {count} rows")
        return None if values is None else list(values)

    spans = listed("version_spans")
    return {
        "ids": numbers,
        "keys": keys,
        "created_steps": number_array(created_step, count, "uint64", "created_step"),
        "group_ids": each("group_ids", "uint64"),
        "rewards": each("rewards", "float32"),
        "advantages": each("advantages", "float32"),
        "old_versions": each("old_version", "uint64"),
        "kl_ref_versions": each("kl_ref_version", "uint64"),
        "metadata": listed("metadata"),
        "version_spans": None if spans is None else [list(of) for of in spans],
        "provenance": [
            (native.column_name(name), made.engine, made.kind == "processed", made.temperature, made.top_p, made.top_k)
            for name, made in (given.get("provenance") or {}).items()
        ],
        "columns": [
            (name, column.dtype, column.as_bytes(), column.offsets, column.present)
            for name, column in _rows(_values(given), count, given).items()
        ],
    }


def piece_args(ids: Any, completion_ids: Any, sampler_logps: Any, version: Any, lengths: Any) -> native.InsertArgs:
    """Pieces of partial rollouts, as the native half takes them."""
    args = insert_args(ids, 0, {"completion_ids": completion_ids, "sampler_logps": sampler_logps, "lengths": lengths})
    versions = number_array(version, len(args["ids"]), "uint64", "version")
    offsets = next((offsets for name, _, _, offsets, _ in args["columns"] if name == "completion_ids"), None)
    lens = np.zeros(len(versions), np.int64) if offsets is None else np.diff(offsets)
    args["version_spans"] = [[(int(made_by), int(count))] for made_by, count in zip(versions, lens, strict=True)]
    return args


def _values(given: Columns) -> dict[str, Any]:
    """The columns' values by our names; none is given twice."""
    values = {name: given.get(name) for name in WELL_KNOWN}
    for name, own in (given.get("columns") or {}).items():
        ours = native.column_name(name)
        if values.get(ours) is not None:
            raise InvalidError(f"column {ours} is given twice" + (f", as {name} too" if ours != name else ""))
        values[ours] = own
    return values


def _are_keys(ids: Any) -> bool:
    return isinstance(ids, (list, tuple)) and bool(cast("Sequence[Any]", ids)) and isinstance(ids[0], str)


def _rows(values: dict[str, Any], count: int, given: Columns) -> dict[str, Rows]:
    """The rows of each column that is given."""
    lengths, prompt_lengths = given.get("lengths"), given.get("prompt_lengths")
    column_lengths = given.get("column_lengths") or {}
    kept: I64 | Bools | None = None if lengths is None else kept_of(lengths, count, "lengths")
    prompt_kept: I64 | Bools | None = None if prompt_lengths is None else kept_of(prompt_lengths, count, "prompt_lengths")
    rows: dict[str, Rows] = {}
    for name, column in values.items():
        if column is None:
            continue
        counts = prompt_kept if name == "prompt_ids" else kept
        if name in column_lengths:
            counts = kept_of(column_lengths[name], count, f"lengths of {name}")
        rows[name] = rows_of(column, count, WELL_KNOWN.get(name), name, counts)
        if name == "completion_ids" and kept is None and rows[name].present is None:
            # Lengths of the others, where the completions tell them.
            kept = rows[name].lens
    _check_lens(rows, count)
    return rows


def _check_lens(rows: dict[str, Rows], count: int) -> None:
    """Per-token columns agree: here the row can be told."""
    per_token = [name for name in WELL_KNOWN if name in rows and name != "prompt_ids"]
    for name in per_token[1:]:
        first, other = rows[per_token[0]], rows[name]
        differ = first.lens != other.lens
        for present in (first.present, other.present):
            if present is not None:
                differ &= present
        if differ.any():
            row = int(np.argmax(differ))
            lens = int(first.lens[row]), int(other.lens[row])
            raise InvalidError(f"{per_token[0]} has {lens[0]} values, {name} has {lens[1]}", row=row)
