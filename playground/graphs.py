"""CUDA graphs: the short passes of the lean forward, recorded once and replayed.

On a GPU a small model waits for the launches of its kernels, some fifteen a layer. A graph launches
them all at once, but always the same ones, over the same memory. So keys and values lie in buffers
of a fixed capacity; a tensor of positions says where new ones are written and which rotary angles
they get, and attention reads the whole capacity under a mask made from it. Nothing that Python
knows changes from pass to pass, and nothing waits for the device.

The buffers are those in which a `SharedPromptLayer` keeps a single sequence, so that a state can
leave the graphs at any time: prompts, long passes and beams are read as everywhere. What a graph
gives is compared with the pass itself before it is used, and where anything fails once, a model
does without graphs for good.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from playground.faults import first_line
from playground.machine import ZERO_GPU

if TYPE_CHECKING:
    from playground.llama import LeanLlama, LlamaState

_SIZES = (1, 2, 4, 8, 16)  # new tokens of a recorded pass; others are filled up to the next
_SMALLEST, _LARGEST = 256, 4096  # capacities, in tokens; each is twice the one before
_WARM_UPS = 3  # runs before a recording, in which libraries choose kernels and take their memory
# Mean error against the mean size of hidden states. What goes wrong is wrong by about 1.
_TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-3}
_HALF_TOLERANCE = 0.1

Step = Callable[[], Tensor]
Capture = Callable[[Step], Step]  # from a step to its replay

_log = logging.getLogger(__name__)


class Recorder:
    """Records steps that read and write fixed memory as CUDA graphs, which share one pool."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream: Any = None
        self._pool: Any = None

    def __call__(self, step: Step) -> Step:
        """The step's replay, whose result always lies where the recorded one does: the next replay
        of any of the graphs may write over it."""
        with torch.cuda.device(self._device):
            if self._stream is None:
                self._stream = torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
                self._pool = torch.cuda.graph_pool_handle()
            graph, before = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
            self._stream.wait_stream(before)
            with torch.cuda.stream(self._stream):
                for _ in range(_WARM_UPS):
                    step()
                # Other threads may go on using the device meanwhile.
                with torch.cuda.graph(
                    graph, self._pool, self._stream, capture_error_mode="thread_local"
                ):
                    recorded = step()
            before.wait_stream(self._stream)

        def replay() -> Tensor:
            graph.replay()
            return recorded

        return replay


def recorder_for(device: torch.device) -> Recorder | None:
    """How passes are recorded on a device, or None where they are not: on anything but CUDA, and on
    ZeroGPU, where each request would have to record them anew."""
    return Recorder(device) if device.type == "cuda" and not ZERO_GPU else None


class _Buffers:
    """Keys and values of all layers for up to `capacity` tokens, and what recorded passes share."""

    def __init__(self, lean: LeanLlama, capacity: int) -> None:
        shape = 1, 2 * lean.num_kv_heads, capacity, lean.head_dim
        like = {"dtype": lean.dtype, "device": lean.device}
        # Zeros: attention gives what lies behind the end no weight, but 0 · NaN is not 0.
        self.stored = [torch.zeros(shape, **like) for _ in lean.layers]
        self.capacity = capacity
        self.tables = lean.rotary(0, capacity)
        self.places = torch.arange(capacity, device=lean.device)
        self.passes: dict[int, tuple[_Pass, Step]] = {}  # by size: the step and its replay

    def hold(self, state: LlamaState) -> bool:
        """Whether this is where the state's keys and values lie."""
        found = state.layers[0].buffers
        return found is not None and found[0] is self.stored[0]


class _Window:
    """A layer's buffer during a pass."""

    def __init__(self, buffer: Tensor, positions: Tensor) -> None:
        self._buffer, self._positions = buffer, positions

    def append(self, new: Tensor) -> tuple[Tensor]:
        """Write [1, H, k, D] at the positions [k]; the whole buffer [1, H, capacity, D]."""
        return (self._buffer.index_copy_(2, self._positions, new),)


class _Pass:
    """A pass over `size` new tokens that depends on nothing but tensors which stay in place."""

    def __init__(self, lean: LeanLlama, buffers: _Buffers, size: int) -> None:
        like = {"dtype": lean.dtype, "device": lean.device}
        self._lean, self._buffers = lean, buffers
        self._x = torch.zeros(1, size, lean.embedding.shape[1], **like)
        self._offsets = torch.arange(size, device=lean.device)
        self._positions = self._offsets.clone()
        self._seen = torch.zeros(size, buffers.capacity, **like)

    def load(self, x: Tensor, start: int) -> None:
        """Take inputs x [1, k ≤ size, hidden] of the tokens from `start` on. The last one fills
        the rest: no token sees those behind it, and their keys are overwritten by the next pass."""
        count = x.shape[1]
        self._x[:, :count] = x
        if count < len(self._offsets):
            self._x[:, count:] = x[:, -1:]
        torch.add(self._offsets, start, out=self._positions)

    def __call__(self) -> Tensor:
        """The hidden states of `LeanLlama.run` [states, 1, size, hidden]."""
        lean, buffers, positions = self._lean, self._buffers, self._positions
        cos, sin = (table.index_select(0, positions) for table in buffers.tables)
        mask = self._seen.masked_fill(buffers.places > positions[:, None], float("-inf"))
        mask = mask.repeat(lean.num_heads // lean.num_kv_heads, 1)
        windows = [_Window(buffer, positions) for buffer in buffers.stored]
        return torch.stack(lean.run(self._x, windows, (cos, sin), mask))


class Graphs:
    """The recorded passes of one model, and the buffers that they read and write.

    The buffers belong to one state at a time, the newest. One that loses them goes on in memory of
    its own, without graphs.
    """

    def __init__(self, lean: LeanLlama, capture: Capture) -> None:
        self._lean, self._capture = lean, capture
        self._sets: dict[int, _Buffers] = {}  # by capacity
        self._lent: _Buffers | None = None
        self._holder: Callable[[], LlamaState | None] = lambda: None
        self._former: weakref.WeakSet[LlamaState] = weakref.WeakSet()  # had them once, or have them
        self.failed = False

    def run(self, state: LlamaState, x: Tensor) -> list[Tensor]:
        """What `state.plain_pass(x)` does, by a recorded pass where that is possible."""
        start, count = state.length, x.shape[1]
        size = next((size for size in _SIZES if size >= count), None)
        if size is None or not self._serves(state, start + size):
            return state.plain_pass(x)
        try:
            states = self._replayed(state, x, size)
        except RuntimeError as error:
            self._give_up(error)
            state.rollback(start)
            return state.plain_pass(x)
        for layer in state.layers:
            layer.extend(count)
        state.length += count
        return list(states)

    def _serves(self, state: LlamaState, end: int) -> bool:
        """Whether a recorded pass can take the state to `end`: a prompt is there, no beams, and
        nobody has the buffers who is newer."""
        holder = self._holder()
        is_newest = holder is None or holder is state or state not in self._former
        fits = end <= _LARGEST and state.layers[0].buffers is not None
        return fits and is_newest and not self.failed and torch.is_inference_mode_enabled()

    def _replayed(self, state: LlamaState, x: Tensor, size: int) -> Tensor:
        """The hidden states by the pass of this size, [states, 1, k, hidden], as a copy."""
        buffers = self._lend(state, state.length + size)
        if size not in buffers.passes:
            self._learn(state, x, size, buffers)
        step, replay = buffers.passes[size]
        step.load(x, state.length)
        return replay()[:, :, : x.shape[1]].clone()

    def _lend(self, state: LlamaState, end: int) -> _Buffers:
        """Buffers for `end` tokens, in which the state's keys and values now lie."""
        holder, lent = self._holder(), self._lent
        if lent is not None and holder is state and lent.hold(state) and lent.capacity >= end:
            return lent
        capacity = _SMALLEST
        while capacity < end:
            capacity *= 2
        if capacity not in self._sets:
            self._sets[capacity] = _Buffers(self._lean, capacity)
        if lent is not None and holder is not None and holder is not state and lent.hold(holder):
            for layer, buffer in zip(holder.layers, lent.stored, strict=True):
                layer.move_to(torch.empty_like(buffer))
        buffers = self._sets[capacity]
        for layer, buffer in zip(state.layers, buffers.stored, strict=True):
            layer.move_to(buffer)
        self._holder, self._lent = weakref.ref(state), buffers
        self._former.add(state)
        return buffers

    def _learn(self, state: LlamaState, x: Tensor, size: int, buffers: _Buffers) -> None:
        """Record the pass of this size, and of all smaller ones, which the end of a run needs: a
        warm-up then leaves nothing to record. Raises RuntimeError where one gives other states than
        the pass itself."""
        start = state.length
        expected = torch.stack(state.plain_pass(x))
        state.rollback(start)
        for each in [s for s in _SIZES if s <= size and s not in buffers.passes]:
            step = _Pass(self._lean, buffers, each)
            step.load(x[:, :each], start)
            replay = self._capture(step)
            for buffer in buffers.stored:
                buffer[:, :, start:] = 0  # so that the replay itself has to write
            if not _alike(replay()[:, :, : x.shape[1]], expected[:, :, :each]):
                raise RuntimeError(f"{each} new tokens got other hidden states by a replay")
            buffers.passes[each] = step, replay

    def _give_up(self, error: RuntimeError) -> None:
        self.failed = True
        self._sets.clear()
        self._lent = None
        _log.warning("CUDA graphs are off for this model: %s", first_line(error))


def _alike(found: Tensor, expected: Tensor) -> bool:
    """Whether hidden states [states, 1, k, hidden] are equal, each within its dtype's rounding."""
    tolerance = _TOLERANCES.get(expected.dtype, _HALF_TOLERANCE)
    error = (found - expected).double().abs().mean((1, 2, 3))
    return bool((error <= tolerance * expected.double().abs().mean((1, 2, 3))).all())
