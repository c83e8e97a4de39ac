"""The ways to say that a prompt does not fit, as codes and as sentences.

A sentence pattern is composed of a subject (prompt, input, context, messages, tokens), an excess (too long, exceeds,
longer than) and a measure (limit, maximum, window, tokens), in either order and within one sentence:

    "input length exceeds the maximum allowed"  =  subject "input" + excess "exceeds" + measure "maximum"

The whole sentence of one provider does not belong here: the next provider words it differently. To cover a new
wording, add it to `tests/data/overflow_wordings.jsonl`, see which part of it is unknown, and widen that part. Gaps
between the parts are bounded and texts are short (`normalize.MAX_CHARS`), so the time is bounded too.
"""

from __future__ import annotations

import re

from trimtab.overflow.normalize import any_of

# Typed codes, in lower case, letters and digits only. A code that has "context" or "prompt" in it is beyond doubt.
STRONG_CODE = re.compile(
    r"^(?!.*(?:image|audio|file|rate|quota|minute|daily|output|completion|deadline|string|array))"
    r"(?:.*(?:context|prompt|input).*(?:exceed|overflow|toolong|toolarge|full|limitreached|overlimit)"
    r"|.*(?:conversation|message)(?:toolong|lengthexceed)"
    r"|.*exceed\w*(?:context|prompt)|.*outofcontext|1261$|336103$)"  # Zhipu, Baidu
)
# Codes that are also used for other sizes: they count only when no sentence beside them is about another size.
WEAK_CODE = re.compile(r"^(?:toomany(?:input|prompt)?tokens|tokens?limit(?:reached|exceeded)|tokens?toolong)$")

_GAP = r"[^.!?;。！？；]{0,%d}?"
_NEAR, _FAR = _GAP % 30, _GAP % 70  # what may stand between two parts: 30 or 70 characters

_CONTEXT = (
    r"(?:\bcontext(?:ual)?[ _-]?(?:length|window|size|limit|budget|capacity|space)s?"
    r"|\bn_ctx\w*|\bmax_model_len\w*|\bmax_(?:seq|sequence|context|input|prompt|total)\w*"
    r"|\bmax tokens of \d+|\b(?:tokens?|input|prompt) limit|\b(?:model|attention) window"
    r"|\bmax(?:imum)?(?: \w+){0,3}? (?:context|sequence|prompt|input|model|message)(?: \w+)?)"
)
_EXCESS = (
    r"(?:\bexce\w*ds?\b|\bexceed\w*|\bsurpass\w*|\boverflow\w*|\bover\b|\bbeyond\b|\babove\b|\boutgr\w+|\bexhausted|>"
    r"|\bmore\b[^.]{0,30}\bthan\b|\b(?:longer|larger|greater|bigger|more|higher) than\b|\btoo (?:long|large|big|many)\b"
    r"|\b(?:do(?:es)? ?n(?:o|)t|cannot|cant|wont|will not) fit\b)"
)
_SUBJECT = (
    r"(?:\b(?:prompts?|inputs?|messages?|conversation|dialog(?:ue)?|chat|history|sequence|context|query)\b"
    r"|\b(?:total|requested|input|prompt|number of) tokens?\b|\btoken(?:s| count| ids)\b)"
)
_MEASURE = (
    r"(?:\bmax\w*|\blimit\w*|\ballow\w*|\bsupport\w*|\blength|\btokens?\b|\bmodels?\b|\bwindow|\bcontext"
    r"|\bcapacity|\b\d{4,})"
)
_TOO = r"too (?:long|large|big)\b"
_MUST = r"\b(?:must|should|can|may|cannot)\b"
_LESS = r"(?:less|fewer|at most|no more|exceed|<|between|within|in \(\d|\[)"

# "max_tokens must be at least 1, got -7584": the server computed what is left of the window, and nothing is.
NO_ROOM = r"max_(?:completion_)?tokens\b[^.]{0,30}[ (]-(?:[2-9]|\d\d)"

_ENGLISH = (
    rf"{_CONTEXT}{_NEAR}{_EXCESS}",  # context length exceeded; token limit exceeded
    rf"{_EXCESS}{_FAR}{_CONTEXT}",  # exceeds the context window; longer than the maximum sequence length
    rf"\bcontext (?:is |was )?(?:overflow|exceeded|full\b|{_TOO})|(?:ran|run|out) (?:out )?of context\b",
    r"\bkv[ _]cache (?:is )?full|context shift is disabled|exceed\w* (?:\w+ ){0,4}context\b",
    rf"{_SUBJECT}{_NEAR}\b{_TOO}|\brequest (?:is |was )?too long\b",  # prompt is too long
    rf"{_SUBJECT}{_FAR}{_EXCESS}{_FAR}{_MEASURE}",  # input length exceeds the maximum allowed
    rf"\btotal (?:length|size) of {_FAR}{_TOO}",
    rf"(?:body|request|content){_FAR}{_EXCESS}{_FAR}(?:tokens|large model|language model)",
    r"too many (?:input |prompt |total )?tokens|\bmore (?:input |prompt )?tokens\b[^.]{0,20}\bthan\b",
    # The window alone is stated: "maximum context length is 8192".
    rf"{_CONTEXT}(?: (?:is|was|of|only|just|tokens?|for|this|the|model|size)){{0,5}}[ :=(\[]{{1,3}}\d",
    r"\bcontext (?:is|of|has|allows|supports)(?: (?:only|up|to|at|most|a|maximum|of)){0,5} \d",
    r"\bcontext: ?\d+ tokens|max(?:imum)? (?:size|length) ?:? ?\d+ tokens",
    r"\b(?:accepts?|takes) (?:only |up to |at most )*\d+ (?:input |prompt )?tokens",
    r"supports? (?:only )?(?:up to|at most|a maximum of|no more than) \d+ (?:input |prompt )?tokens",
    r"tokens?,? (?:but )?(?:the )?maximum is \d|max(?:imum)?(?: number of)? input (?:characters|tokens)",
    # The advice names the prompt: "reduce the length of the messages".
    r"\b(?:reduc|shorten|decreas|trim|compress|truncat)\w*"
    r"(?: (?:the|your|its|of|length|size|number|tokens?|input|overall|total)){0,7} "
    r"(?:messages|prompts?|inputs?|conversation|context|history)\b",
    r"\b(?:shorter|fewer|smaller)(?: or \w+)? (?:inputs?|prompts?|messages|conversation|context)\b",
    # The condition is stated: "input tokens must be less than 8192".
    rf"{_SUBJECT}{_FAR}{_MUST}{_NEAR}{_LESS}{_FAR}(?:tokens?\b|length|context|window|\d\])",
    rf"\b(?:prompt|input|conversation|request)s? (?:has|have|is|contains?) \d+ tokens?\b{_NEAR}"
    r"\b(?:limit|max(?:imum)?) is \d",
    rf"\b(?:input|prompt|inputs|total|number of) tokens?\b{_FAR}{_MUST}{_NEAR}{_LESS}",
    r"\b(?:input|prompt) length should be|must have (?:less|fewer) than \d+ tokens",
    r"tokens to keep from the (?:initial )?prompt|context the overflows",
    r"context_(?:length|window)_exceeded|contextwindowexceedederror|context_?lengthexceeded",
    NO_ROOM,
)

_ZH_SUBJECT = "(?:上下文|输入|提示词?|prompt|消息|对话|会话|文本|内容|tokens?|长度)"
_ZH_EXCESS = "(?:超长|过长|太长|过大|超出|超过|超限|超過|超标|溢出|过多|大于|超上限)"
_ZH_SHORT = "上下文[^。;!?]{0,12}(?:不足|不够)"
_JA_SUBJECT = "(?:コンテキスト|入力|プロンプト|トークン|メッセージ|会話)"
_KO_SUBJECT = "(?:컨텍스트|문맥|입력|프롬프트|토큰|메시지|대화)"
_EURO = (
    r"(?:\bprompt|\binput|kontext|eingabe|nachricht|contexte|entrée|invite|contexto|entrada|mensaje|mensage|conversa"
    r"|contesto|контекст|запрос|промпт|ввод|входн|сообщени|kontekst|wejści|zapytani|bağlam|girdi|ngữ cảnh"
    r"|đầu vào)"
)
_EURO_EXCESS = (
    r"(?:zu lang|zu groß|überschr|trop long|dépass|excèd|demasiado larg|muy larg|\bexced|\bsuper[ao]"
    r"|sobrepas|ultrapass|muito long|troppo lung|\beccede|слишком (?:длин|больш)|превы[шс]|za dług|przekr"
    r"|çok uzun|aşıyor|aştı|quá dài|vượt quá)"
)
# A model's "context" in further languages: no error about a rate, a price or another size has this word.
_CONTEXT_WORDS = (
    r"(?:context|kontext|kontekst|konteks|contest[oi]\b|контекст|bağlam|ngữ cảnh|πλαίσι|συμφραζ|סביבת ההקשר|הקשר"
    r"|سياق|زمینه|संदर्भ|सन्दर्भ|कॉन्टेक्स्ट|প্রসঙ্গ|சூழல்|บริบท|コンテキスト|文脈|컨텍스트|문맥|上下文|语境|語境)"
)
_EXCEEDS = (
    r"(?:overschr[ie]|te lang\b|överskr|för lång|overskr|overstig|for lang\b|překr|přesah|prekr|presah|příliš dlouh"
    r"|túllép|meghalad|túl hosszú|ylitt|liian pitkä|depăș|depăş|prea lung|перевищ|задовг|надвиш|прелаз|преко"
    r"|prekorač|presega|melebihi|terlalu panjang|\baş(?:ıyor|tı|ıl|mak)|çok uzun|υπερβα|υπέρβα|ξεπερν"
    r"|חורג|חריגה|ארוך מדי|تجاوز|يتجاوز|أطول من|طويل|بیش از|فراتر از|अधिक|लंबा|লম্বা|অতিক্রম|மீறு|เกิน|ยาว)"
)
_OTHER_LANGUAGES = (
    _ZH_SHORT,
    rf"{_ZH_SUBJECT}[^。;!?]{{0,24}}{_ZH_EXCESS}",
    r"(?:超出|超过|超過|大于)[^。;!?]{0,24}"
    r"(?:上下文|最大长度|最大输入|tokens?|长度限制|模型(?:的)?(?:最大|上限|限制|长度))",
    r"(?:压缩|缩短|减少|精简)[^。;!?]{0,8}(?:上下文|输入|对话|提示词|历史)",
    rf"{_JA_SUBJECT}[^。]{{0,40}}(?:長すぎ|超え|超過|大きすぎ|多すぎ|上限)",
    rf"{_KO_SUBJECT}[^.]{{0,40}}(?:초과|너무 (?:길|깁|긴|많|큽)|넘)",
    rf"{_EURO}{_FAR}{_EURO_EXCESS}",
    rf"{_EURO_EXCESS}{_FAR}(?:contexte|contexto|contesto|kontext|контекст|запрос|промпт|token)",
    rf"{_CONTEXT_WORDS}{_FAR}{_EXCEEDS}|{_EXCEEDS}{_FAR}{_CONTEXT_WORDS}",
)

# Matches in a normalized sentence where it says that the prompt does not fit.
TOO_LONG = any_of(*_ENGLISH, *_OTHER_LANGUAGES)

# The word for a model's context, in any of the languages known here.
CONTEXT = re.compile(_CONTEXT_WORDS)
