"""Text in, edits out: what people hold in their hands, whichever engine runs the model.

Knows engines by their protocol only, and applies every action they give to a canvas: one executor
for all. Imports no torch.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from reviser.core.actions import ActionVocab
from reviser.core.canvas import Canvas
from reviser.core.codec import Codec, TextEdit
from reviser.core.mask import Boundary
from reviser.core.trajectory import Trajectory
from reviser.engines.base import DecodeConfig, Engine, Request, Step, StopReason, run
from reviser.errors import ConfigError, MissingExtra, TrajectoryError

GAP = "{}"
"""What marks a gap in a text to fill in."""


@dataclass(frozen=True, kw_only=True)
class Locked:
    """A stretch of text that was to stay as it is, and proof that it did."""

    text: str
    before: str
    """SHA-256 of its bytes in the text given."""
    after: str
    """SHA-256 of the bytes found in its place in the result."""


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """What a model wrote, and how."""

    prompt: str
    """As given, gaps and all."""
    text: str
    trajectory: Trajectory
    """Its prefix and restoration; `unlearned` are the actions that were given, not chosen."""
    logprobs: tuple[float, ...]
    """The model's own for each chosen action, before mask, bias and temperature."""
    stop_reason: StopReason
    locked: tuple[Locked, ...]
    config: DecodeConfig
    provenance: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        """One line of JSON."""
        fields = asdict(self) | {"trajectory": json.loads(self.trajectory.to_json())}
        return json.dumps(fields, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Rollout:
        """Read what `to_json` wrote."""
        try:
            fields = json.loads(text)
            return cls(
                prompt=str(fields["prompt"]),
                text=str(fields["text"]),
                trajectory=Trajectory.from_json(json.dumps(fields["trajectory"])),
                logprobs=tuple(map(float, fields["logprobs"])),
                stop_reason=fields["stop_reason"],
                locked=tuple(Locked(**part) for part in fields["locked"]),
                config=DecodeConfig(**fields["config"]),
                provenance=dict(fields["provenance"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise TrajectoryError(f"This is no rollout ({error!r}): {text[:80]!r}.") from error


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """One request, with what it was made from."""

    prompt: str
    prefix: tuple[int, ...]
    given: tuple[int, ...]
    """Actions that stand in the history behind the prefix: text after a gap, and the way back."""
    request: Request


class Writing:
    """One text being written: iterate for its edits as they happen.

    Whoever has enough calls `cancel`, at any step; the text is valid at all times.
    """

    def __init__(
        self, codec: Codec, vocab: ActionVocab, plan: _Plan, steps: Iterator[Step]
    ) -> None:
        self._codec = codec
        self._vocab = vocab
        self._plan = plan
        self._steps = steps
        self._canvas = Canvas.replay(vocab, [*plan.prefix, *plan.given])
        self._stream = codec.stream(self._canvas.tokens())
        self._logprobs: list[float] = []
        self._actions: list[int] = []
        self._stop_reason: StopReason | None = None

    def __iter__(self) -> Iterator[TextEdit]:
        return self

    def __next__(self) -> TextEdit:
        if self._stop_reason is not None:
            raise StopIteration
        return self.take(next(self._steps))

    @property
    def text(self) -> str:
        """The text as it is now."""
        return self._stream.text

    def take(self, step: Step) -> TextEdit:
        """Apply one step; the edit of the text that it is."""
        self._actions.append(step.action)
        self._logprobs.append(step.logprob)
        self._stop_reason = step.ended
        return self._stream.feed(self._canvas.apply(step.action))

    def cancel(self) -> None:
        """Stop here. The engine drops the request."""
        if self._stop_reason is None:
            self._stop_reason = "cancelled"
        close = getattr(self._steps, "close", None)
        if close is not None:
            close()

    def rollout(self, provenance: dict[str, Any] | None = None) -> Rollout:
        """What was written, to the end if it was not cancelled."""
        for _ in self:
            pass
        assert self._stop_reason is not None
        plan = self._plan
        return Rollout(
            prompt=plan.prompt,
            text=self.text,
            trajectory=Trajectory(
                prefix=plan.prefix,
                restoration=(*plan.given, *self._actions),
                unlearned=tuple(range(len(plan.given))),
            ),
            logprobs=tuple(self._logprobs),
            stop_reason=self._stop_reason,
            locked=self._locked(),
            config=plan.request.config,
            provenance=provenance or {},
        )

    def _locked(self) -> tuple[Locked, ...]:
        """The locked stretches before and after, each cut out of its own canvas."""
        plan, table = self._plan, self._codec.token_bytes
        rows = Boundary(self._vocab, 1)
        plan.request.enter(rows, 0)
        rows.replay(0, self._actions)
        start = Canvas.replay(self._vocab, [*plan.prefix, *plan.given]).tokens()
        stretches = zip(
            _outside(start, plan.request.gaps),
            _outside(self._canvas.tokens(), rows.gaps(0)),
            strict=True,
        )
        locked = []
        for before, after in stretches:
            old, new = (b"".join(table[token] for token in part) for part in (before, after))
            hashes = (hashlib.sha256(part).hexdigest() for part in (old, new))
            text = old.decode("utf-8", "replace")
            locked.append(Locked(text=text, before=next(hashes), after=next(hashes)))
        return tuple(part for part in locked if part.text)


class Reviser:
    """A model to write with; `reviser.load` opens one.

    Settings are those of `DecodeConfig`, by name.
    """

    def __init__(
        self, engine: Engine, codec: Codec, *, provenance: dict[str, Any] | None = None
    ) -> None:
        self.engine = engine
        self.codec = codec
        self.provenance = provenance or {}

    def generate(self, prompt: str = "", **settings: Any) -> Rollout:
        """Write on behind a prompt, which stays as it is."""
        return self.stream(prompt, **settings).rollout(self.provenance)

    def stream(self, prompt: str = "", **settings: Any) -> Writing:
        """The same, edit by edit as they happen."""
        return self._write(self._continuation(prompt, _config(settings)))

    def infill(
        self, text: str, spans: Sequence[tuple[int, int]] | None = None, **settings: Any
    ) -> Rollout:
        """Fill the gaps of a text, marked with {} or given as spans of characters to rewrite."""
        return self.stream_infill(text, spans, **settings).rollout(self.provenance)

    def stream_infill(
        self, text: str, spans: Sequence[tuple[int, int]] | None = None, **settings: Any
    ) -> Writing:
        """The same, edit by edit as they happen."""
        return self._write(self._infilling(text, _parts(text, spans), _config(settings)))

    def generate_many(self, prompts: Iterable[str], **settings: Any) -> Iterator[Rollout]:
        """Many prompts side by side, in the order given; each has its own seed, one after another.

        Prompts are read as there is room for them.
        """
        config = _config(settings)
        plans: dict[int, Writing] = {}
        done: dict[int, Rollout] = {}
        shown = 0

        def requests() -> Iterator[Request]:
            for n, prompt in enumerate(prompts):
                seeded = replace(config, seed=(config.seed + n) % (1 << 64))
                plan = self._continuation(prompt, seeded)
                plans[n] = Writing(self.codec, self.engine.vocab, plan, iter(()))
                yield plan.request

        for step in run(self.engine, requests()):
            plans[step.request].take(step)
            if step.ended is not None:
                done[step.request] = plans.pop(step.request).rollout(self.provenance)
            while shown in done:
                yield done.pop(shown)
                shown += 1

    def _write(self, plan: _Plan) -> Writing:
        return Writing(self.codec, self.engine.vocab, plan, run(self.engine, [plan.request]))

    def _continuation(self, prompt: str, config: DecodeConfig) -> _Plan:
        prefix = self.codec.encode(prompt)
        request = Request.continuation(self.engine.vocab, prefix, config)
        return _Plan(prompt=prompt, prefix=tuple(prefix), given=(), request=request)

    def _infilling(self, prompt: str, parts: Sequence[str], config: DecodeConfig) -> _Plan:
        """What stands behind the first gap is shown as written first, as in training; then back."""
        vocab = self.engine.vocab
        first = tuple(self.codec.encode(parts[0]))
        rest = [self.codec.encode_part(part) for part in parts[1:]]
        places = [len(first)]
        for part in rest[:-1]:
            places.append(places[-1] + len(part))
        later = [token for part in rest for token in part]
        length = len(first) + len(later)
        back = vocab.split_move(-len(later), cursor=length, length=length) if later else ()
        given = (*later, *(vocab.move_id(delta) for delta in back))
        request = Request(
            history=(*vocab.prefix_actions(first), *given),
            length=length,
            cursor=len(first),
            gaps=tuple((place, place) for place in dict.fromkeys(places)),
            config=config,
        )
        return _Plan(prompt=prompt, prefix=first, given=given, request=request)


def load(name: str | Path, *, engine: str = "hf", **options: Any) -> Reviser:
    """Open a model folder, or a model of that name from the hub, to write with.

    Options go to the engine: `rows` and what `from_pretrained` takes for "hf", what vLLM's
    `EngineArgs` takes for "vllm", `url` of a running server for "vllm-server".
    """
    if engine not in ("hf", "vllm", "vllm-server"):
        raise ConfigError(f"engine is {engine!r}; use 'hf', 'vllm' or 'vllm-server'.")
    opened: Any
    if engine == "hf":
        try:
            from reviser.engines.hf import HFEngine
        except ModuleNotFoundError as error:
            raise MissingExtra(
                f"Engine 'hf' needs the hf extra: {error.name} is not installed. Install it with:"
                " pip install 'reviser-lm[hf]'."
            ) from error
        opened, folder = HFEngine.load(name, **options)
    else:
        from reviser.engines.vllm import VLLMEngine, VLLMServer

        opened, folder = (VLLMEngine if engine == "vllm" else VLLMServer).load(name, **options)
    provenance = {"model": str(name), "engine": engine, "versions": opened.versions}
    return Reviser(opened, Codec.load(folder), provenance=provenance)


def _config(settings: dict[str, Any]) -> DecodeConfig:
    known = [f.name for f in fields(DecodeConfig)]
    for name in settings:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            advice = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(known)}."
            raise ConfigError(f"{name!r} is no setting of decoding. {advice}")
    return DecodeConfig(**settings)


def _parts(text: str, spans: Sequence[tuple[int, int]] | None) -> list[str]:
    """The locked stretches around the gaps, empty ones included."""
    if spans is None:
        parts = text.split(GAP)
        if len(parts) == 1:
            raise ConfigError(f"The text has no gap: mark one or more with {GAP}, or give spans.")
        return parts
    bounds = [bound for span in spans for bound in span]
    if not spans or bounds != sorted(bounds) or bounds[0] < 0 or bounds[-1] > len(text):
        raise ConfigError(
            f"spans {list(spans)} must be in order, apart, and within the text's {len(text)}"
            " characters; give one or more."
        )
    edges = [0, *bounds, len(text)]
    return [text[edges[n] : edges[n + 1]] for n in range(0, len(edges), 2)]


def _outside(tokens: list[int], gaps: Iterable[tuple[int, int]]) -> list[list[int]]:
    edges = [0, *(bound for gap in gaps for bound in gap), len(tokens)]
    return [tokens[edges[n] : edges[n + 1]] for n in range(0, len(edges), 2)]
