"""The attacks of these tests as tables of docs/security.md (``python -m tests.api.admission.attack_table``)."""

import re
from collections.abc import Mapping
from typing import Final, Protocol

from tests.api.admission import cage_attacks, creator_attacks
from tests.api.admission.scene import ALLOWED
from tests.api.resource import REPOSITORY

PAGE: Final = REPOSITORY / "docs" / "security.md"
BETWEEN: Final = re.compile(r"(?<=<!-- attacks -->\n).*?(?=<!-- end of the attacks -->)", re.DOTALL)


class Attack(Protocol):
    @property
    def answer(self) -> str: ...


TABLES: Final[dict[str, Mapping[str, Attack]]] = {
    "By whoever creates a job": creator_attacks.CREATIONS,
    "By whoever changes a job that is there": creator_attacks.CHANGES,
    "With the operator's token: creating": cage_attacks.CREATIONS,
    "With the operator's token: changing and deleting": cage_attacks.REQUESTS,
    "With the operator's token: where it has nothing to do": cage_attacks.FOREIGN_KINDS,
}


def tables() -> str:
    return (
        "".join(f"\n### {title}\n\n| | answer |\n|---|---|\n{_rows(table)}" for title, table in TABLES.items()) + "\n"
    )


def _rows(table: Mapping[str, Attack]) -> str:
    return "".join(f"| {what} | {_answer(attack)} |\n" for what, attack in table.items())


def _answer(attack: Attack) -> str:
    return "goes through" if attack.answer == ALLOWED else f"refused: `… {attack.answer} …`"


if __name__ == "__main__":
    PAGE.write_text(BETWEEN.sub(lambda _: tables(), PAGE.read_text(encoding="utf-8")), encoding="utf-8")
