"""Ray itself, in one place: of its types little is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import ray as ray_module  # pyright: ignore[reportMissingImports]
import ray.exceptions as ray_exceptions  # pyright: ignore[reportMissingImports]
import ray.util.metrics as ray_metrics  # pyright: ignore[reportMissingImports]

ray: Any = ray_module
exceptions: Any = ray_exceptions
metrics: Any = ray_metrics

Method = TypeVar("Method", bound=Callable[..., Any])


def group(name: str) -> Callable[[Method], Method]:
    """Says which threads of its actor a method runs on."""
    decorator: Any = ray.method(concurrency_group=name)
    return decorator
