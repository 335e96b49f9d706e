"""What is made of a profiler's stacks."""

from tests.bench.scale import profile
from tests.bench.scale.profile import Share

FOLDED = "main;work;dumps 30\nmain;work;work;dumps 10\nmain;work 20\nmain;idle loop 40\n 7\n"


def test_shares_of_functions() -> None:
    assert profile.shares(FOLDED) == [
        Share("dumps", 40.0, 40.0),
        Share("idle loop", 40.0, 40.0),
        Share("work", 20.0, 60.0),
        Share("main", 0.0, 100.0),
    ]


def test_the_table_names_the_costliest_first() -> None:
    assert profile.markdown(profile.shares(FOLDED)).splitlines()[2] == "| `dumps` | 40.0 % | 40.0 % |"
