"""A small durable replay buffer, for loops of your own and for trainers that sample while they train.

::

    from rollstore.replay_buffer import ReplayBuffer

    with ReplayBuffer.open("run/buffer", max_staleness=4, stale="drop") as buffer:
        buffer.put(step, completion_ids=tokens, sampler_logps=logps, cursor=loader_state)
        sample = buffer.sample(64)
        completions = buffer.gather(sample.ids, "completion_ids")
        buffer.trained(sample.ids, cursor=loader_state)
        buffer.advance(step + 1)

Steps are versions of the policy: they count up when the weights change. Whatever a call returned from survives a kill, together
with the cursor that was given to it; what was sampled and neither trained nor dropped is sampled again.
"""

from ._buffer import By, ReplayBuffer, Stale
from ._table import Sample, Strategy

__all__ = ["By", "ReplayBuffer", "Sample", "Stale", "Strategy"]
