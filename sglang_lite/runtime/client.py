"""A client of a runtime: tokenizes, submits, and gives each request a stream of its own.

One DEALER socket, used from one event loop. A dead runtime is noticed in three ways: its process
has ended, its connection is gone, or it was silent for too long. Each of them gives every open
stream a `RuntimeUnavailable`; nobody waits for an answer that cannot come.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import zmq
import zmq.asyncio

from sglang_lite import wire
from sglang_lite.errors import RuntimeUnavailable, from_status
from sglang_lite.params import Constraint, Hint, SamplingParams
from sglang_lite.runtime.detokenize import Detokenizer
from sglang_lite.runtime.greeting import WATCH, Process, first_word
from sglang_lite.runtime.stream import Chunk, Completion, Stream
from sglang_lite.runtime.tokenizer import Tokenizer
from sglang_lite.runtime.transport import Disconnections, dealer
from sglang_lite.seeds import derive_seed

__all__ = ["Chunk", "Client", "Completion", "Stream"]

SILENCE = 30.0  # seconds without a word after which a runtime counts as gone
ACK_EVERY = 16


class Client:
    """Use `await Client.connect(address)`; `submit` and `close` belong to the same event loop."""

    def __init__(
        self, socket: zmq.asyncio.Socket, hello: wire.Hello, tokenizer: Any, process: Process | None
    ) -> None:
        self.model, self.tokenizer = hello.model, tokenizer
        self._boot = hello.boot
        self._socket, self._process = socket, process
        self._streams: dict[int, tuple[Stream, SamplingParams]] = {}
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._ids = itertools.count(1)
        self._seq = self._acked = 0
        self._heard = asyncio.get_running_loop().time()
        self._error: RuntimeUnavailable | None = None
        self._connection = Disconnections(socket)
        self._tasks = [asyncio.ensure_future(self._listen()), asyncio.ensure_future(self._watch())]

    @classmethod
    async def connect(
        cls,
        address: str,
        *,
        tokenizer: Any = None,
        timeout: float = 60.0,
        process: Process | None = None,
    ) -> Client:
        """Attach to the runtime at `address`; its tokenizer is loaded unless one is given.

        Raises:
            RuntimeUnavailable: nobody answers within `timeout` seconds, or `process` has ended.
        """
        socket = dealer(address)
        try:
            socket.send(wire.encode(wire.Attach()))
            hello = await first_word(socket, address, timeout, process)
            if tokenizer is None:
                tokenizer = _tokenizer_of(hello.model)
            return cls(socket, hello, tokenizer, process)
        except BaseException:
            socket.close(linger=0)
            raise

    # -------------------------------------------------------------- requests

    def submit(
        self,
        tokens: Sequence[int],
        params: SamplingParams,
        *,
        constraint: Constraint | None = None,
        namespace: str = "",
        logits_from: int | None = None,
        hint: Hint | None = None,
        skip_special_tokens: bool = True,
        no_stop_trim: bool = False,
    ) -> Stream:
        """Start a request. What the runtime refuses is raised by the stream.

        Raises:
            RuntimeUnavailable: the runtime is gone.
        """
        if self._error is not None:
            raise RuntimeUnavailable(str(self._error))
        if params.seed is None:
            params = msgspec.structs.replace(params, seed=secrets.randbits(63))
        id = next(self._ids)
        text = Detokenizer(
            self.tokenizer, params.stop, skip_special=skip_special_tokens, trim=not no_stop_trim
        )
        stream = Stream(id, len(tokens), text, self._abort)
        self._streams[id] = stream, params
        try:
            packed = wire.pack(tokens)
        except OverflowError:
            packed = wire.pack([-1])  # no token id at all; refused by the runtime like any other
        message = wire.Submit(id, packed, params, constraint, namespace, logits_from, hint)
        self._send(message)
        return stream

    def submit_n(
        self, tokens: Sequence[int], params: SamplingParams, n: int, **options: Any
    ) -> list[Stream]:
        """`n` samples of one prompt, with seeds derived from (seed, index)."""
        seed = secrets.randbits(63) if params.seed is None else params.seed
        each = [
            msgspec.structs.replace(params, seed=derive_seed(seed, index) if n > 1 else seed)
            for index in range(n)
        ]
        return [self.submit(tokens, own, **options) for own in each]

    async def ask(self, about: str) -> dict[str, Any]:
        """What the runtime says about "stats", "flush" or "check".

        Raises:
            RuntimeUnavailable: it is gone, or goes before it answers.
        """
        if self._error is not None:
            raise RuntimeUnavailable(str(self._error))
        id = next(self._ids)
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._answers[id] = answer
        self._send(wire.Ask(id, about))
        return await answer

    def end_program(self, program: int) -> None:
        """Say that no request of this program of hints follows: what is retained for it lapses."""
        if self._error is None:
            self._send(wire.End(program))

    @property
    def alive(self) -> bool:
        return self._error is None

    async def close(self) -> None:
        """Say goodbye; requests that are still open end with an error."""
        if self._error is None:
            self._send(wire.Detach())
        self._die("this client was closed.")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._connection.close()
        self._socket.close(linger=200)

    # -------------------------------------------------------------- the runtime's words

    async def _listen(self) -> None:
        while self._error is None:
            data = await self._socket.recv()
            self._heard = asyncio.get_running_loop().time()
            try:
                self._take(wire.decode_from_runtime(data))
            except msgspec.MsgspecError as error:
                self._die(f"the runtime speaks another version of the protocol: {error}")

    def _take(self, message: wire.FromRuntime) -> None:
        if isinstance(message, wire.Hello):
            if message.boot != self._boot:
                self._die("the runtime was restarted; what was in flight is lost.")
            return
        if message.seq != self._seq + 1:
            lost = f"messages {self._seq + 1} to {message.seq - 1} of the runtime were lost"
            self._fail_all(f"{lost}: this client read too slowly, or its connection broke.")
        self._seq = message.seq
        if isinstance(message, wire.Step):
            self._take_step(message)
        elif isinstance(message, wire.Failed):
            if found := self._streams.pop(message.id, None):
                found[0].put(from_status(message.status, message.reason, message.param))
        elif isinstance(message, wire.Answer):
            answer = self._answers.pop(message.id, None)
            if answer is not None and not answer.done():
                answer.set_result(message.stats)
        if self._seq - self._acked >= ACK_EVERY or isinstance(message, wire.Beat):
            self._send(wire.Ack(self._seq))
            self._acked = self._seq

    def _take_step(self, step: wire.Step) -> None:
        tokens = wire.unpack(step.tokens).tolist()
        logprobs = np.frombuffer(step.logprobs, "<f4").tolist()
        at, spans = 0, dict[int, list[int]]()  # id -> where its tokens are, perhaps in two places
        for id, count in zip(step.ids, step.counts, strict=True):
            spans.setdefault(id, []).extend(range(at, at + count))
            at += count
        for id in step.scores.keys() | step.finishes.keys():
            spans.setdefault(id, [])
        for id, span in spans.items():
            self._give(
                id, step, [tokens[i] for i in span], [logprobs[i] for i in span if logprobs], span
            )

    def _give(
        self, id: int, step: wire.Step, ids: list[int], logprobs: list[float], span: list[int]
    ) -> None:
        if id not in self._streams:
            return  # aborted by its reader
        stream, params = self._streams[id]
        finish = step.finishes.get(id)
        text = stream.text.feed(ids, finish)
        if finish is not None:
            del self._streams[id]
        asked = params.logprobs is not None
        stream.put(
            Chunk(
                ids=ids,
                text=text,
                logprobs=logprobs if asked else None,
                top=[step.top[i] for i in span if i in step.top] if params.logprobs else None,
                scores=np.frombuffer(step.scores.get(id, b""), "<f4").tolist(),
                score_top=step.score_top.get(id, []),
                finish=finish,
            )
        )

    # -------------------------------------------------------------- ends

    async def _watch(self) -> None:
        while self._error is None:
            await asyncio.sleep(WATCH)
            if reason := self._death():
                await asyncio.sleep(WATCH)  # its last words may still be on their way
                self._die(reason)

    def _death(self) -> str | None:
        """Why the runtime counts as gone, if it does."""
        if self._process is not None and (code := self._process.poll()) is not None:
            return f"the runtime's process has ended with status {code}."
        if self._connection.broken():
            return "the connection to the runtime is gone."
        if asyncio.get_running_loop().time() - self._heard > SILENCE:
            return f"the runtime has been silent for {SILENCE:.0f} s."
        return None

    def _die(self, reason: str) -> None:
        if self._error is None:
            self._error = RuntimeUnavailable(reason)
        self._fail_all(reason)

    def _fail_all(self, reason: str) -> None:
        streams, self._streams = self._streams, {}
        for stream, _ in streams.values():
            stream.put(RuntimeUnavailable(reason))
        answers, self._answers = self._answers, {}
        for answer in answers.values():
            if not answer.done():
                answer.set_exception(RuntimeUnavailable(reason))

    def _abort(self, id: int) -> None:
        if id in self._streams and self._error is None:
            self._send(wire.Abort(id))

    def _send(self, message: wire.ToRuntime) -> None:
        # The socket has no high-water mark, so this never waits.
        self._socket.send(wire.encode(message))


def _tokenizer_of(model: wire.ModelInfo) -> Any:
    if model.folder:
        return Tokenizer.load(model.folder)
    from sglang_lite.testing import ByteTokenizer  # a fake runtime: it has no files

    return ByteTokenizer()
