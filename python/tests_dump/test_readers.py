"""Goal: what `rollstore dump` writes is read by the programs that people have, every value bit for bit.

Method: a store of every type, with NaNs of unusual bits, is made from JSON Lines that this test writes itself, dumped in each
format, and read by pyarrow, pandas, DuckDB and safetensors; each is compared with the bits that went in.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import duckdb
import ml_dtypes
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors import safe_open

COMMAND = os.environ.get("ROLLSTORE_COMMAND") or str(Path(sys.executable).parent / "rollstore")

ID_MAX = 2**64 - 1

F32 = np.array([0xBF000000, 0x7FC00000, 0x7FC00001, 0xFFC00000, 0x80000000, 0x00000001, 0xFF800000], np.uint32)
F16 = np.array([0x7E00, 0x7E01, 0xFE00, 0x0001, 0x3C00, 0xFC00], np.uint16)
BF16 = np.array([0x7FC0, 0x7FC1, 0xFF80, 0x0001, 0x3F80], np.uint16)

COLUMNS: dict[str, tuple[str, np.ndarray]] = {
    "sampler_logps": ("float32", F32.view(np.float32)),
    "half": ("float16", F16.view(np.float16)),
    "brain": ("bfloat16", BF16.view(ml_dtypes.bfloat16)),
    "signed": ("int32", np.array([-(2**31), -1, 2**31 - 1], np.int32)),
    "wide": ("int64", np.array([-(2**63), 2**53 + 1, 2**63 - 1], np.int64)),
    "words": ("uint32", np.array([0, 2**32 - 1], np.uint32)),
    "bytes": ("uint8", np.array([0, 255], np.uint8)),
}


def text(value: Any) -> Any:
    """A float as the documentation says that it stands in JSON."""
    if isinstance(value, np.integer):
        return int(value)
    bits = int(value.view(f"uint{8 * value.itemsize}"))
    if np.isnan(value):
        return f"NaN({bits:#x})"
    if np.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return float(value)


def lines(rollouts: list[dict[str, Any]]) -> str:
    """JSON Lines with their mark, as the documentation describes them."""
    line = {"lineage": [[0, 3]], "next": 4}
    store = {"window": 8, "max_version_lag": 1, "step": 100, "ref_versions": line, "kl_ref_versions": line}
    mark = json.dumps({"version": 1, "rows": len(rollouts), "damaged": 0, "store": store})
    body = "".join(json.dumps(rollout) + "\n" for rollout in rollouts)
    end = '{{"rollstore.crc32":"{:08x}","rollstore":{}}}\n'
    return body + end.format(zlib.crc32((body + end.format(0, mark)).encode()), mark)


def columns(scale: int) -> dict[str, Any]:
    repeated = {name: (dtype, np.tile(values, scale)) for name, (dtype, values) in COLUMNS.items()}
    return {name: {"dtype": dtype, "values": [text(value) for value in values]} for name, (dtype, values) in repeated.items()}


ROLLOUTS: list[dict[str, Any]] = [
    {"id": str(ID_MAX), "group": str(2**63), "created_step": 98, "born_step": 99, "ref_version": 2, "reward": 0.1,
     "advantage": "-Infinity", "version_spans": [[2, 3], [2**62, 4]], "metadata": {"hex": "00ff"}, "columns": columns(1)},
    {"id": "7", "created_step": 99, "born_step": 100, "ref_version": 3, "columns": {
        **columns(2), "kl_ref_logps": {"dtype": "float32", "version": 1, "values": [-0.5] * 14}}},
    {"id": "8", "created_step": 99, "born_step": 100, "ref_version": 3, "columns": {"words": {"dtype": "uint32", "values": []}}},
]  # fmt: skip


@pytest.fixture(scope="session")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dumps")
    (folder / "all.jsonl").write_text(lines(ROLLOUTS))
    run("load", "all.jsonl", "-o", "store", folder=folder)
    for name in ["all.parquet", "snappy.parquet", "all.safetensors"]:
        run("dump", "store", "-o", name, "--compression", "snappy" if "snappy" in name else "none", folder=folder)
    return folder


def run(*arguments: str, folder: Path) -> str:
    done = subprocess.run([COMMAND, *arguments], cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def bits(values: Any) -> list[int]:
    values = np.ascontiguousarray(values)
    return values.view(f"uint{8 * values.itemsize}").tolist()


def expected(name: str, place: int) -> list[int] | None:
    scale = [1, 2, 0][place]
    if scale == 0:
        return [] if name == "words" else None
    return bits(np.tile(COLUMNS[name][1], scale))


PARQUET = ["all.parquet", "snappy.parquet"]


@pytest.mark.parametrize("file", PARQUET)
def test_pyarrow_reads_exact_types_and_bits(dumps: Path, file: str) -> None:
    table = pq.read_table(dumps / file)
    schema = {field.name: field.type for field in table.schema}
    element = {"half": pa.float16(), "brain": pa.uint16(), "signed": pa.int32(), "wide": pa.int64(), "words": pa.uint32()}
    for name, dtype in element.items():
        assert schema[name] == pa.list_(pa.field("element", dtype, nullable=False)), name
    assert [schema[name] for name in ["id", "group_id", "born_step", "reward"]] == [pa.uint64()] * 3 + [pa.float32()]
    assert table["id"].to_pylist() == [ID_MAX, 7, 8]
    assert table["group_id"].to_pylist() == [2**63, None, None]
    assert table["kl_ref_version"].to_pylist() == [None, 1, None]
    assert table["version_spans"].to_pylist()[0] == [{"version": 2, "token_count": 3}, {"version": 2**62, "token_count": 4}]
    assert table["metadata"].to_pylist() == [b"\x00\xff", None, None]
    for name in COLUMNS:
        for place in range(3):
            cell = table[name][place].values
            found = None if cell is None else bits(cell.to_numpy(zero_copy_only=False))
            assert found == expected(name, place), (name, place)


@pytest.mark.parametrize("file", PARQUET)
def test_pandas_reads_the_same(dumps: Path, file: str) -> None:
    frame = pd.read_parquet(dumps / file)
    assert frame["id"].dtype == np.uint64 and frame["id"].tolist() == [ID_MAX, 7, 8]
    assert frame["born_step"].tolist() == [99, 100, 100]
    assert frame["reward"].dtype == np.float32 and bits(frame["reward"].to_numpy()[:1]) == bits(np.float32([0.1]))
    for name in COLUMNS:
        for place, cell in enumerate(frame[name]):
            assert (None if cell is None else bits(cell)) == expected(name, place), (name, place)


@pytest.mark.parametrize("file", PARQUET)
def test_duckdb_reads_the_same(dumps: Path, file: str) -> None:
    rows = duckdb.sql(f"from read_parquet('{dumps / file}')")
    types = dict(zip(rows.columns, map(str, rows.types), strict=True))
    assert [types[name] for name in ["id", "group_id", "reward"]] == ["UBIGINT", "UBIGINT", "FLOAT"]
    assert [types[name] for name in ["signed", "wide", "words", "bytes", "brain"]] == [
        "INTEGER[]", "BIGINT[]", "UINTEGER[]", "UTINYINT[]", "USMALLINT[]",
    ]  # fmt: skip
    # It widens half floats, which have no type of their own there.
    assert [types[name] for name in ["sampler_logps", "half"]] == ["FLOAT[]", "FLOAT[]"]
    assert rows.select("id").fetchall() == [(ID_MAX,), (7,), (8,)]
    for name in set(COLUMNS) - {"half"}:
        values = duckdb.sql(f"select unnest({name}) as value from read_parquet('{dumps / file}')").fetchnumpy()["value"]
        assert bits(values) == [bit for place in range(3) for bit in expected(name, place) or []], name
    total = duckdb.sql(f"select sum(len(half)) from read_parquet('{dumps / file}')").fetchall()
    assert total == [(18,)]


def test_safetensors_reads_flat_tensors_and_the_places_in_them(dumps: Path) -> None:
    with safe_open(dumps / "all.safetensors", framework="np") as file:
        names = set(file.keys())
        read = {name: file.get_tensor(name) for name in names if name != "brain"}
        assert file.metadata()["rollstore.crc32"] and json.loads(file.metadata()["rollstore"])["rows"] == 3
        assert file.get_slice("brain").get_dtype() == "BF16"
    assert read["ids"].dtype == np.uint64 and read["ids"].tolist() == [ID_MAX, 7, 8]
    assert read["group_ids"].tolist() == [2**63, 0, 0] and read["group_ids.present"].tolist() == [True, False, False]
    assert (read["created_steps"].tolist(), read["ref_versions"].tolist()) == ([98, 99, 99], [2, 3, 3])
    assert read["kl_ref_logps.versions"].tolist() == [0, 1, 0]
    assert read["version_spans.offsets"].tolist() == [0, 2, 2, 2]
    for name in set(COLUMNS) - {"brain"}:
        offsets = read[f"{name}.offsets"]
        assert offsets.dtype == np.int64 and offsets[0] == 0
        present = read.get(f"{name}.present", np.ones(3, bool))
        for place, (begin, end) in enumerate(zip(offsets[:-1], offsets[1:], strict=True)):
            found = bits(read[name][begin:end]) if present[place] else None
            assert found == expected(name, place), (name, place)
    assert read["brain.offsets"].tolist() == [0, 5, 15, 15]


def test_bf16_lies_in_the_file_as_it_is(dumps: Path) -> None:
    raw = (dumps / "all.safetensors").read_bytes()
    length = int.from_bytes(raw[:8], "little")
    begin, end = json.loads(raw[8 : 8 + length])["brain"]["data_offsets"]
    assert np.frombuffer(raw[8 + length + begin : 8 + length + end], np.uint16).tolist() == BF16.tolist() * 3


@pytest.mark.parametrize("file", ["all.jsonl", *PARQUET, "all.safetensors"])
def test_every_format_loads_as_the_store_that_it_was(dumps: Path, file: str, tmp_path: Path) -> None:
    run("load", str(dumps / file), "-o", str(tmp_path / "copy"), folder=dumps)
    whole = [run("dump", str(store), folder=dumps).splitlines()[:-1] for store in [dumps / "store", tmp_path / "copy"]]
    assert [json.loads(line) for line in whole[0]] == [json.loads(line) for line in whole[1]]


def test_json_lines_are_strict_and_keep_large_ids(dumps: Path) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    parsed = [json.loads(line, parse_constant=refuse) for line in run("dump", "store", folder=dumps).splitlines()]
    assert [line.get("id") for line in parsed] == [str(ID_MAX), "7", "8", None]
    assert parsed[0]["columns"]["half"]["values"][:3] == ["NaN", "NaN(0x7e01)", "NaN(0xfe00)"]
