"""Reading a batch's results: the words they become, and whether a request is at its end."""

from __future__ import annotations

from sglang_lite.runtime.scheduling.assemble import Row
from sglang_lite.runtime.scheduling.batch import Float, Int, Sampled
from sglang_lite.runtime.scheduling.output import Outbox
from sglang_lite.runtime.scheduling.request import Request
from sglang_lite.wire import Finish, FinishReason, TopLogprobs


def finish_after(request: Request, token: int, data: bytes) -> Finish | None:
    """The end that `token`, with bytes `data`, brings about; the first rule that applies counts.

    Stop strings come before stop ids, and those before the length.
    """
    armed = request.drawn >= request.params.min_tokens
    if found := request.stops.feed(data, armed=armed):
        stop, cut = found
        return Finish(FinishReason.STOP, stop, cut)
    if armed and token in request.eos:
        return Finish(FinishReason.STOP, token, len(data))
    if request.known >= request.limit:
        return Finish(FinishReason.LENGTH)
    return None


def report_token(
    outbox: Outbox, request: Request, token: int, sampled: Sampled, index: int
) -> None:
    wanted = request.params.logprobs
    if wanted is None:
        outbox.token(request.key, token, None)
        return
    top = None
    if wanted:
        top = _top(sampled.top_ids[index], sampled.top_logprobs[index], wanted)
    outbox.token(request.key, token, float(sampled.logprobs[index]), top)


def report_scores(outbox: Outbox, row: Row, sampled: Sampled, at: int) -> None:
    """The logprobs of the row's scored prompt tokens, which begin at entry `at`."""
    wanted = row.request.params.logprobs or 0
    end = at + row.scored
    top = []
    if wanted:
        ids, logprobs = sampled.score_top_ids[at:end], sampled.score_top_logprobs[at:end]
        top = [_top(*each, wanted) for each in zip(ids, logprobs, strict=True)]
    outbox.scores(row.request.key, sampled.scores[at:end].tolist(), top)


def _top(ids: Int, logprobs: Float, wanted: int) -> TopLogprobs:
    return TopLogprobs(ids[:wanted].tolist(), logprobs[:wanted].tolist())
