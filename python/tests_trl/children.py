"""Runs in processes of their own, that may be killed or form a group: forked, since importing torch takes longer than a run."""

from __future__ import annotations

import multiprocessing
import os
import socket
import sys
import traceback
from collections.abc import Callable
from typing import Any

SECONDS_MAX = 300
"""Time for one run that is too long: one rank waits for another that will not come."""


def run(function: Callable[..., Any], *args: Any, ranks: int = 1, killed: bool = False, **kwargs: Any) -> Any:
    """Calls a function in `ranks` new processes, and returns its result, by rank where there are several.

    `killed` says that the processes end by SIGKILL, or of a peer that did, and have no result.
    """
    context = multiprocessing.get_context("fork")
    pipes = [context.Pipe(duplex=False) for _ in range(ranks)]
    port = _free_port()
    children = [
        context.Process(target=_child, args=(rank, ranks, port, pipes[rank][1], function, args, kwargs)) for rank in range(ranks)
    ]
    for child in children:
        child.start()
    results = []
    for child, (receiver, sender) in zip(children, pipes, strict=True):
        sender.close()
        try:
            results.append(receiver.recv() if receiver.poll(SECONDS_MAX) else None)
        except EOFError:
            results.append(None)
        child.join(SECONDS_MAX)
    codes = [child.exitcode for child in children]
    for child in children:
        child.kill()
    if killed:
        # A rank may see its peer's end before it comes to its own.
        assert -9 in codes and 0 not in codes, codes
    else:
        assert codes == [0] * ranks, codes
    return results[0] if ranks == 1 else results


def _child(rank: int, ranks: int, port: int, sender: Any, function: Callable[..., Any], args: Any, kwargs: Any) -> None:
    from accelerate.state import AcceleratorState, GradientState, PartialState

    # What the parent set up is the parent's.
    for state in (AcceleratorState, GradientState, PartialState):
        state._reset_state()
    if ranks > 1:
        os.environ.update(
            RANK=str(rank),
            LOCAL_RANK=str(rank),
            WORLD_SIZE=str(ranks),
            LOCAL_WORLD_SIZE=str(ranks),
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=str(port),
            ACCELERATE_USE_CPU="true",
        )
    try:
        sender.send(function(*args, **kwargs))
        code = 0
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
