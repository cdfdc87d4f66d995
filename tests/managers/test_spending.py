"""What one host may cost: answers that follow each other come to an end, a long procedure does not."""

from __future__ import annotations

from ibkeys import files
from ibkeys.managers.elsewhere.answer_limits import HOST_BYTES, HOST_SECONDS, AnswerUsage


class Asked:
    """A host that is asked, and its clock."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.spending = AnswerUsage(lambda: self.now)

    def asks(self, answers: int, seconds: float, size: int, pause: float = 0.0) -> int:
        """Ask so often; return how many answers there were before it was given up."""
        for count in range(answers):
            self.now += pause
            if self.spending.seconds_left() <= 0 or self.spending.is_over_size():
                return count
            self.now += seconds
            self.spending.count_answer(size)
        return answers


def test_slow_answers_one_after_the_other_end() -> None:
    assert Asked().asks(1000, 15.0, 0) == HOST_SECONDS / 15


def test_long_answers_one_after_the_other_end() -> None:
    assert Asked().asks(1000, 0.01, 64 * files.MIB) == HOST_BYTES / (64 * files.MIB) + 1


def test_a_day_of_questions_now_and_then_does_not_end() -> None:
    assert Asked().asks(86_400, 0.4, 512 << 10, pause=1.0) == 86_400


def test_a_pause_gives_back_no_more_than_was_spent() -> None:
    asked = Asked()
    asked.now += 1_000_000
    assert asked.asks(1000, 15.0, 0) == HOST_SECONDS / 15
