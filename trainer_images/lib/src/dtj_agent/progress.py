"""The half of the agent that tells how far training is: its output, its reports, the server, and its last words.

Nothing here may disturb the training: what fails is said once, and is missing then. Before the training starts only
file descriptors are opened; all else is loaded when it runs.
"""

# Imports are where they are used: the training's start does not wait for them.
# ruff: noqa: PLC0415

from __future__ import annotations

from collections.abc import Callable, Mapping

from dtj_agent import protocol
from dtj_agent.endpoints import Endpoints
from dtj_agent.messages import say
from dtj_agent.output import Pump, can_be_copied

OUTPUT_S = 1.0
"""How long the output may stay open after the end of the training: what it left behind may hold it for ever."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dtj_agent.patterns import Reading
    from dtj_agent.service import Service
    from dtj_agent.state import State


class End:
    """How the command ended: ``signal`` and ``local_rank`` of the copy that failed first, if one did."""

    def __init__(self, exit_code: int, signal: int | None, local_rank: int | None) -> None:
        self.exit_code = exit_code
        self.signal = signal
        self.local_rank = local_rank


class Progress:
    """Use: ``output()`` and ``variables`` for each copy's start, ``begin()`` when all run, ``end()`` when none does."""

    def __init__(self, environ: Mapping[str, str], processes: int) -> None:
        self._environ = environ
        self._processes = processes
        self._state: State | None = None
        self._service: Service | None = None
        self._pump = Pump(self._hear, environ.get(protocol.LOG_PATTERN)) if can_be_copied() else None
        self._endpoints = Endpoints(environ)

    @property
    def variables(self) -> Mapping[str, str]:
        """What all copies get besides their own."""
        return self._endpoints.variables

    def output(self) -> tuple[int, int] | None:
        """What becomes stdout and stderr of the next copy; None: the agent's own."""
        try:
            return None if self._pump is None else self._pump.pipes()
        except OSError as error:  # no file descriptor is left
            say(f"the training's output cannot be read: {error.strerror}")
            return None

    def begin(self) -> None:
        self._attempt("how far training is cannot be told", self._begin_state)
        if self._pump is not None:
            self._pump.begin()
        self._attempt("how far training is cannot be told", self._begin_service)

    def end(self, end: End) -> None:
        """Hear what is left, and leave it as the pod's last words."""
        self._attempt("the end of the output may be missing", self._finish_output)
        self._attempt("the last reports of the training may be missing", self._hear_the_rest)
        self._attempt("the termination message cannot be written", lambda: self._write_last_words(end))

    def _begin_state(self) -> None:
        from dtj_agent.state import Place, State

        last_line = None if self._pump is None else self._pump.last_line
        self._state = State(Place.from_environment(self._environ), last_line=last_line)

    def _begin_service(self) -> None:
        if self._state is None:
            return
        from dtj_agent.service import Service

        self._service = Service(self._state, self._endpoints, self._environ)
        self._service.start()

    def _hear(self, reading: Reading) -> None:
        if self._state is not None:
            self._state.hear_reading(reading)

    def _finish_output(self) -> None:
        if self._pump is not None:
            self._pump.finish(OUTPUT_S)

    def _hear_the_rest(self) -> None:
        if self._service is not None:
            self._service.hear_the_rest()
        if self._state is not None:
            self._state.end()

    def _write_last_words(self, end: End) -> None:
        from dtj_agent import last_words

        told = None if self._state is None else self._state.last_words()
        if end.exit_code == 0 and told is None:
            return
        copy = end.local_rank or 0
        last_words.write(
            last_words.message(
                exit_code=end.exit_code,
                lines=() if self._pump is None else self._pump.last_lines(copy),
                signal=end.signal,
                rank=self._rank(end.local_rank),
                progress=told,
            ),
            self._environ.get(protocol.TERMINATION_LOG) or last_words.PATH,
        )

    def _rank(self, local_rank: int | None) -> int | None:
        """Of what failed first; None where the pod says it all."""
        node_rank = None if self._state is None else self._state.place.node_rank
        if local_rank is None or node_rank is None or self._processes == 1:
            return None
        return node_rank * self._processes + local_rank

    def _attempt(self, consequence: str, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:  # noqa: BLE001 - the training goes on whatever it is
            say(f"{consequence}. Please report this: {error!r}")
