"""The ways to say that a prompt does not fit: sentences in several languages, and codes."""

from __future__ import annotations

import pytest

from tests.overflow.samples import OVERFLOWS
from trimtab.overflow.normalize import normalize
from trimtab.overflow.wordings import STRONG_CODE, TOO_LONG, WEAK_CODE

OTHER_SENTENCES = [
    "The model `gpt-9` does not exist",
    "Provider returned error",
    "Conversation not found",
    "prompt is required",
    "upstream connect error: maximum context length",
    "the context window is not configured",
    "In context=('properties', 'path'), schema must have a 'type' key.",
    "Request Entity Too Large",
    "Der Kontext der Anfrage ist ungültig",
    "Контекст вызова не найден",
]


@pytest.mark.parametrize("text", [text for text, _, _ in OVERFLOWS if " " in text or not text.isascii()])
def test_sentences(text: str) -> None:
    assert TOO_LONG.search(normalize(text))


SENTENCES = {
    "Dutch": "De invoer overschrijdt de maximale contextlengte van het model.",
    "Swedish": "Prompten överskrider modellens maximala kontextlängd.",
    "Norwegian": "Teksten er for lang for modellens kontekst.",
    "Czech": "Vstup překračuje maximální délku kontextu modelu.",
    "Hungarian": "A bemenet túllépi a modell maximális kontextushosszát.",
    "Finnish": "Syöte ylittää mallin kontekstin enimmäispituuden.",
    "Romanian": "Intrarea depășește lungimea maximă a contextului.",
    "Ukrainian": "Перевищено максимальну довжину контексту моделі.",
    "Indonesian": "Input melebihi panjang konteks maksimum model.",
    "Turkish": "İstek, modelin bağlam penceresini aşıyor.",
    "Greek": "Το μήνυμα υπερβαίνει το μέγιστο πλαίσιο του μοντέλου.",
    "Arabic": "تجاوز الإدخال الحد الأقصى لطول السياق للنموذج.",
    "Hindi": "इनपुट मॉडल की अधिकतम संदर्भ लंबाई से अधिक है।",
    "Thai": "ข้อความเกินขนาดบริบทสูงสุดของโมเดล",
    "Hebrew": "הקלט חורג מאורך ההקשר המרבי של המודל",
}


@pytest.mark.parametrize("text", SENTENCES.values(), ids=SENTENCES)
def test_a_context_that_is_exceeded_in_further_languages(text: str) -> None:
    assert TOO_LONG.search(normalize(text))


@pytest.mark.parametrize("text", OTHER_SENTENCES)
def test_other_sentences(text: str) -> None:
    assert not TOO_LONG.search(normalize(text))


STRONG = ["contextlengthexceeded", "exceedcontextsizeerror", "contextwindowexceedederror", "prompttoolong", "1261"]
STRONG += ["modelmaxprompttokensexceeded", "outofcontexterror", "maxcontextlengthexceeded", "inputtokensexceeded"]
STRONG += ["contextexceeded", "contextwindowfull", "messagelengthexceedslimit", "conversationtoolong"]
NEITHER = ["ratelimitexceeded", "invalidrequesterror", "contextdeadlineexceeded", "inputimagetoolarge", "2013", "12610"]
NEITHER += ["inputtokensperminuteexceeded", "messagesizetoolarge", "maxmessagesexceeded"]
NEITHER += ["requesttoolarge", "outputlengthexceeded", "stringabovemaxlength", "modelnotfound", "badrequest", "400"]


@pytest.mark.parametrize("code", STRONG)
def test_strong_codes(code: str) -> None:
    assert STRONG_CODE.match(code)


@pytest.mark.parametrize("code", ["toomanytokens", "tokenslimitreached", "tokenstoolong"])
def test_weak_codes(code: str) -> None:
    assert WEAK_CODE.match(code)


@pytest.mark.parametrize("code", NEITHER)
def test_other_codes(code: str) -> None:
    assert not STRONG_CODE.match(code)
    assert not WEAK_CODE.match(code)
