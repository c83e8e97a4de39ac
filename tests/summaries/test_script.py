"""Scripts are distinguished where they are clear."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.summaries.script import is_foreign, main_script, users_script

ENGLISH = "Please fix the parser and then run the tests again."
RUSSIAN = "Пожалуйста, исправь парсер и потом запусти тесты."
CHINESE = "请修复 parser.py 里的解析器，然后重新运行测试。"
JAPANESE = "パーサーを直して、テストをもう一度実行してください。"
KOREAN = "파서를 고치고 테스트를 다시 실행해 주세요."
ARABIC = "من فضلك أصلح المحلل ثم شغل الاختبارات مرة أخرى."
LOG = "ERROR 2024-01-01 connection refused by upstream worker\n" * 200

NAMES = [
    (ENGLISH, "Latin"),
    (RUSSIAN, "Cyrillic"),
    (CHINESE, "Chinese or Japanese"),
    (JAPANESE, "Chinese or Japanese"),
    (KOREAN, "Korean"),
    (ARABIC, "Arabic"),
    ("12345 {}[] ---", None),
    ("", None),
    ("Ωμέγα и omega", None),
]


@pytest.mark.parametrize(("text", "name"), NAMES)
def test_the_script_of_a_text(text: str, name: str | None) -> None:
    assert main_script(text) == name


def test_what_people_speak_is_not_what_they_paste() -> None:
    assert users_script([CHINESE + "\n" + LOG]) == "Chinese or Japanese"
    assert users_script([RUSSIAN, LOG, RUSSIAN]) == "Cyrillic"
    assert users_script([RUSSIAN, ENGLISH]) is None
    assert users_script([]) is None


FOREIGN = [
    (ENGLISH, [RUSSIAN], True),
    (ENGLISH, [CHINESE, CHINESE], True),
    (CHINESE, [ENGLISH], True),
    (RUSSIAN, [RUSSIAN], False),
    (RUSSIAN + " The file is src/proxy/parser.py, see README", [RUSSIAN], False),
    (CHINESE, [CHINESE + LOG], False),
    (CHINESE, [LOG + "\n" + CHINESE], False),
    (CHINESE, [LOG, CHINESE, LOG], False),  # a script that occurs is not foreign where Latin is spoken
    (ENGLISH, [RUSSIAN, ENGLISH], False),  # nothing clear is spoken
    (ENGLISH, [], False),
    ("42 + 7", [RUSSIAN], False),
    (KOREAN, [JAPANESE], True),
]


@pytest.mark.parametrize(("summary", "texts", "foreign"), FOREIGN)
def test_a_summary_in_another_script(summary: str, texts: list[str], foreign: bool) -> None:
    assert is_foreign(summary, texts) is foreign


@given(st.text(), st.lists(st.text(), max_size=4))
def test_any_text_is_judged(summary: str, texts: list[str]) -> None:
    assert is_foreign(summary, texts) in (True, False)


@given(st.lists(st.text(), min_size=1, max_size=4))
def test_the_users_own_words_are_not_foreign(texts: list[str]) -> None:
    whole = "".join(texts)
    if main_script(whole) == users_script(texts):
        assert not is_foreign(whole, texts)
