"""How flows are run: one thread owns the engine, and a flow runs in the thread of its caller.

A flow is a generator that yields questions, receives their answers and returns a result. It knows
no engine, thread or network. `Driver` asks an engine everybody's questions side by side, `Run` is
one flow that is being run, and `run_many` runs many.

Numbers: a flow's questions are counted by its `Run`, a driver's by tickets, an engine's by its own
numbers; the key of a run tells those apart that share an inbox.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from itertools import count
from queue import SimpleQueue
from typing import Any, Generic, TypeAlias, TypeVar
from weakref import WeakSet, finalize

from reviser.engines.base import Act, Answer, Engine, Question, Score, Scores, StopReason, failure
from reviser.errors import EngineError, ReviserError

__all__ = ["Cancelled", "Driver", "Flow", "Inline", "Run", "run_many", "scores"]

R = TypeVar("R")
T = TypeVar("T")
Flow: TypeAlias = Generator[list[Question], list[Any], R]
Reply: TypeAlias = Callable[[Answer], object]
_Post: TypeAlias = tuple[int, Question | None, Reply]
CLOSED = "The model was closed."

WAIT_SECONDS = 0.05
"""How long an engine may wait for work done elsewhere, before it is asked anything new."""


END_SECONDS = 5.0
"""How long the end of a driver waits for a step of its engine."""


class Cancelled(ReviserError):
    """Thrown into a flow that is to end now; one that writes returns its text so far."""

    def __init__(self, reason: StopReason) -> None:
        super().__init__("This was cancelled.")
        self.reason = reason


def scores(questions: Iterable[Score]) -> Flow[list[Scores]]:
    """Ask how likely texts are; a part of a flow, for `yield from`."""
    return (yield list(questions))


def _unheard(_: Answer) -> None:
    """Reply to nobody."""


class _Desk:
    """An engine, what it was asked, and who waits for the answers. One thread works at it."""

    def __init__(self, engine: Engine, posts: SimpleQueue[_Post | None]) -> None:
        self._engine, self._posts = engine, posts
        self._numbers: dict[int, int] = {}  # the engine's, by ticket
        self._waiting: dict[int, tuple[int, Reply]] = {}  # tickets and who waits, by its numbers
        self.heard = time.monotonic()
        """The time of the engine's last answer."""

    def work(self) -> bool:
        """Take what was posted and let the engine work for a moment; False if this is the end."""
        while not self._waiting or not self._posts.empty():
            if not self._take():
                return False
        try:
            answers = self._engine.step(WAIT_SECONDS)
        except Exception as error:  # noqa: BLE001 - an engine may raise anything
            self._fail(error)
            return True
        except BaseException:  # an interrupted engine has lost what it ran
            self._fail(EngineError("The engine was interrupted."))
            raise
        if answers:
            self.heard = time.monotonic()
        for answer in answers:
            if answer.number in self._waiting:  # else it was withdrawn
                number = answer.number
                reply = self._end(number) if answer.is_last else self._waiting[number][1]
                reply(answer)
        return True

    def _take(self) -> bool:
        """Take what was posted next: a question, a question to withdraw, or the end."""
        post = self._posts.get()
        if post is None:
            self._fail(EngineError(CLOSED))
            return False
        ticket, question, reply = post
        if question is None:
            if ticket in self._numbers:
                self._cancel(self._numbers[ticket])
            return True
        try:
            number = self._engine.add(question)
        except Exception as error:  # noqa: BLE001 - refused, or it cannot be sent
            reply(Answer(-1, failure(error)))
        else:
            self._numbers[ticket], self._waiting[number] = number, (ticket, reply)
        return True

    def _fail(self, error: Exception) -> None:
        """Answer all questions with an error."""
        for number in list(self._waiting):
            self._cancel(number)(Answer(number, failure(error)))  # some may be queued still

    def _cancel(self, number: int) -> Reply:
        with suppress(Exception):  # what it says all the same, nobody hears
            self._engine.cancel(number)
        return self._end(number)

    def _end(self, number: int) -> Reply:
        ticket, reply = self._waiting.pop(number)
        del self._numbers[ticket]
        return reply


class Driver:
    """A thread that owns an engine. It starts with the first question and ends with `close`."""

    def __init__(self, engine: Engine) -> None:
        self._posts = SimpleQueue[_Post | None]()
        self._desk = _Desk(engine, self._posts)
        self._tickets = count()
        self._lock = threading.Lock()  # of starting and ending
        self._thread: threading.Thread | None = None
        self._end = finalize(self, self._posts.put, None)  # the thread does not refer to this
        _DRIVERS.add(self)

    def post(self, question: Question, reply: Reply) -> int:
        """Ask a question from any thread; return a ticket.

        `reply` is called with each answer, in the thread where the engine works.
        """
        ticket = next(self._tickets)
        with self._lock:
            if self._end.alive:
                self._start()
                self._posts.put((ticket, question, reply))
            else:
                reply(Answer(-1, EngineError(CLOSED)))
        return ticket

    def _start(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=_serve, args=(self._desk,), name="engine", daemon=True)
            thread.start()
            _THREADS.add(thread)
            self._thread = thread

    def cancel(self, ticket: int) -> None:
        """Withdraw a question, from any thread; this never waits."""
        self._posts.put((ticket, None, _unheard))

    def next_of(self, inbox: SimpleQueue[T]) -> T:
        """Wait for the next thing in an inbox that replies are put into."""
        return inbox.get()

    @property
    def heard(self) -> float:
        """The time, by the monotonic clock, of the engine's last answer to anybody."""
        return self._desk.heard

    def close(self) -> None:
        """End the thread; questions that are open get an error."""
        with self._lock:
            self._end()
        if self._thread is not None:
            self._thread.join(END_SECONDS)


_DRIVERS = WeakSet[Driver]()
_THREADS = WeakSet[threading.Thread]()
"""Those of drivers that nobody refers to any more are among them, and may be freeing a model."""


@atexit.register
def _end_all() -> None:
    """End all threads: Python aborts if it ends while one of them is in a library's code."""
    for driver in list(_DRIVERS):
        driver.close()
    for thread in list(_THREADS):
        thread.join(END_SECONDS)


def _serve(desk: _Desk) -> None:
    while desk.work():
        pass


class Inline(Driver):
    """An engine that works while somebody waits for it, all in one thread.

    The same flows then always share the same steps, so their results are equal to the last digit
    on engines that work in this process.
    """

    def _start(self) -> None:
        """There is no thread."""

    def next_of(self, inbox: SimpleQueue[T]) -> T:
        """Let the engine work until there is something in an inbox."""
        while inbox.empty():
            self._desk.work()
        return inbox.get()

    def close(self) -> None:
        """Answer open questions with an error."""
        super().close()
        while self._desk.work():
            pass


class Run(Generic[R]):
    """A flow that is being run by the thread that iterates over its events, or waits for it.

    What it has asked is withdrawn when it is cancelled, or when nobody refers to it any more.
    """

    def __init__(
        self, flow: Flow[R], driver: Driver, inbox: SimpleQueue[Any] | None = None, key: int = 0
    ) -> None:
        self._flow, self._driver, self._key = flow, driver, key
        self._inbox: SimpleQueue[tuple[int, int, Answer | None]] = inbox or SimpleQueue()
        self._asked = 0
        self._questions: dict[int, Question] = {}  # those of the last yield, by their numbers
        self._answers: dict[int, Any] = {}
        self._open: dict[int, int] = {}  # tickets of what is not answered
        finalize(self, _withdraw, driver, self._open)
        self._cancelled: StopReason | None = None
        self._has_begun = False
        self._turn = threading.Lock()  # held by the caller that iterates
        self.is_over = False
        self.result: R
        self.error: Exception | None = None

    def begin(self) -> None:
        """Ask the flow's first questions, if that has not happened."""
        if not self._has_begun:
            self._has_begun = True
            self._advance(None)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        """Wait for the next event; the end of the flow ends the iteration, or raises its error."""
        try:
            with self._turn:
                self.begin()
                while not self.is_over:
                    if self._cancelled is not None:
                        self._fail(Cancelled(self._cancelled))
                        break
                    _, number, answer = self._driver.next_of(self._inbox)
                    event = self.receive(number, answer)
                    if event is not None:
                        return event
        except BaseException:  # Ctrl-C: a caller that continues gets the result so far
            self.close()
            raise
        if self.error is not None:
            raise self.error
        raise StopIteration

    def wait(self) -> R:
        """Run to the end and return the result."""
        for _ in self:
            pass
        return self.result

    def close(self) -> None:
        """End this without waiting: withdraw what is open."""
        self._cancelled = self._cancelled or "cancelled"
        _withdraw(self._driver, self._open)

    def cancel(self, reason: StopReason = "cancelled") -> None:
        """End the flow, from any thread; it may still have a result."""
        self._cancelled = self._cancelled or reason
        self._inbox.put((self._key, -1, None))  # wakes the caller that waits, which checks again

    def receive(self, number: int, answer: Answer | None) -> Any:
        """Take one answer where the flow runs; return an event, if it made one."""
        if self._cancelled is not None and not self.is_over:
            self._fail(Cancelled(self._cancelled))
        if self.is_over or answer is None or number not in self._open:
            return None
        event, value = None, answer.value
        question = self._questions[number]
        if isinstance(question, Act) and not isinstance(value, Exception):
            try:
                event = question.take(value)  # type: ignore[arg-type]
            except Exception as error:  # noqa: BLE001 - the text refuses what the engine did
                self._fail(error)
                return None
        if isinstance(value, Exception):
            del self._open[number]
            self._fail(value)
        elif answer.is_last or (isinstance(question, Act) and question.is_enough()):
            if not answer.is_last:
                self._driver.cancel(self._open[number])
            self._answers[number] = value
            del self._open[number]
            if not self._open:
                self._advance([self._answers[each] for each in self._questions])
        return event

    def _fail(self, error: Exception) -> None:
        """Withdraw what is open, and throw an error into the flow."""
        _withdraw(self._driver, self._open)
        self._advance(error)

    def _advance(self, answers: Any) -> None:
        """Let the flow go on, up to its next questions or its end."""
        try:
            while True:
                is_error = isinstance(answers, Exception)
                asked = self._flow.throw(answers) if is_error else self._flow.send(answers)
                if asked:
                    break
                answers = []
        except StopIteration as end:
            self.result, self.is_over = end.value, True
        except Exception as error:  # noqa: BLE001 - the caller that waits gets it
            self.error, self.is_over = error, True
        else:
            # Numbers are not used again, so an answer to what was withdrawn is never mistaken.
            self._questions = dict(enumerate(asked, self._asked))
            self._asked += len(asked)
            self._answers = {}
            for number in self._questions:
                self._open[number] = self._post(number)

    def _post(self, number: int) -> int:
        inbox, key = self._inbox, self._key  # the driver does not refer to this run
        reply: Reply = lambda answer: inbox.put((key, number, answer))  # noqa: E731
        return self._driver.post(self._questions[number], reply)


def _withdraw(driver: Driver, tickets: dict[int, int]) -> None:
    for ticket in tickets.values():
        driver.cancel(ticket)
    tickets.clear()


def run_many(flows: Iterable[Flow[R]], driver: Driver, *, ahead: int = 256) -> Generator[Run[R]]:
    """Run flows side by side in this thread; yield their runs in order, failed ones too.

    At most `ahead` of them are begun and not yet yielded.
    """
    source, inbox = enumerate(flows), SimpleQueue[Any]()
    running: deque[Run[R]] = deque()
    by_key: dict[int, Run[R]] = {}
    try:
        while True:
            while len(running) < ahead and (following := next(source, None)) is not None:
                key, flow = following
                running.append(Run(flow, driver, inbox, key))
                by_key[key] = running[-1]
                running[-1].begin()
            if not running:
                return
            while not running[0].is_over:
                key, number, answer = driver.next_of(inbox)
                if key in by_key:
                    by_key[key].receive(number, answer)
                    if by_key[key].is_over:
                        del by_key[key]
            run = running.popleft()
            by_key.pop(run._key, None)
            yield run
    finally:  # nobody may want the others any more
        for run in running:
            run.close()
