"""Text in place of a model: how many tokens a prompt has, and words to answer with."""

from __future__ import annotations

CHARACTERS_A_TOKEN = 4
TEMPLATE_TOKENS = 4  # what a chat template adds to each message

_OPENING = tuple("This answer comes from a simulated engine and means nothing :".split())  # noqa: SIM905
_FILLER = tuple("the water stands at the gate and waits until the next lock is free , then runs on .".split())  # noqa: SIM905


def count_text(text: str) -> int:
    """Returns the tokens of a text, about one for four characters, at least one."""
    return max(1, -(-len(text) // CHARACTERS_A_TOKEN))


def count_prompt(prompt: object) -> int | None:
    """Returns the tokens of a completion's prompt (a text or a list of token ids), None for anything else."""
    if isinstance(prompt, str):
        return count_text(prompt)
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str):
        return count_text(prompt[0])
    if isinstance(prompt, list) and prompt and all(type(one) is int for one in prompt):
        return len(prompt)
    return None


def count_messages(messages: object) -> int | None:
    """Returns the tokens of a chat, None when it is none."""
    if not isinstance(messages, list) or not messages:
        return None
    total = 0
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            return None
        total += TEMPLATE_TOKENS + _count_content(message.get("content"))
    return total


def _count_content(content: object) -> int:
    if isinstance(content, str):
        return count_text(content)
    if isinstance(content, list):
        return sum(count_text(str(part.get("text", ""))) for part in content if isinstance(part, dict))
    return 0


def words(start: int, count: int) -> str:
    """Returns the words number `start` to `start + count` of an answer, one a token, each with the space before it."""
    return "".join(_word(index) for index in range(start, start + count))


def _word(index: int) -> str:
    if index < len(_OPENING):
        return ("" if index == 0 else " ") + _OPENING[index]
    return " " + _FILLER[(index - len(_OPENING)) % len(_FILLER)]
