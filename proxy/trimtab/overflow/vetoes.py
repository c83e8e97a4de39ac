"""What only looks like an overflow: two tables of vetoes, and the part of a text that they are applied to.

Hard: the cause is a rate, a quota, a payment, a credential, a filter or a timeout. A shorter prompt does not help.
Soft: the sentence is about another size (the output, bytes, images, one field, a batch).

An error names first what is wrong, then what may help: "the prompt is too long, try again later". Advice must not
undo the cause, so both tables are applied to `cause_of` the text alone. All texts are normalized.

An overflow that is missed costs a retry by hand; a rate limit taken for an overflow costs the user's history. In
doubt, add a veto.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice

from trimtab.overflow.normalize import WORD, any_of
from trimtab.overflow.wordings import NO_ROOM, TOO_LONG

# -- the tables --------------------------------------------------------------------------------------------------

_HARD_CODE = any_of(
    "ratelimit|limitburst|quota|throttl|toomanyrequests|resourceexhausted|overloaded|serviceunavailable",
    "billing|insufficient|credit|payment",
    "unauthori|authentication|invalidapikey",
    "contentfilter|contentpolicy|datainspection|moderation",
    "timeout|deadline",
)
_SOFT_CODE = any_of(
    "abovemax|belowmin|unsupportedparam|unknownparam|missing|invalidjson|templateerror",
    "maxtokensperrequest",  # an embedding request's sum over its inputs
)
# Parameters an error may blame that have nothing to do with length.
_OTHER_PARAM = re.compile(
    r"^(?:temperature|top_[pk]|n|stop|tool_choice|tools\b.*|functions?\b.*|response_format.*|logprobs|seed"
    r"|\w*penalty|reasoning.*|stream.*|model|user)$"
)

_HARD = any_of(
    r"rate[ _-]?limit|\b[io]?[tri]p[mdsh]\b|tokens? ?/ ?(?:s|m|min|minute|day)\b",
    r"\bper[ -](?:sec|min|hour|day|month|week)|(?:last|this|every|each) (?:minute|hour|day|week|month)\b",
    r"\b(?:daily|monthly|weekly)\b|quota|throttl|too many requests|concurren|slow down",
    r"try(?:ing)? again (?:in|after|later)|retry (?:in|after|later)|(?:please|and|then) wait\b|wait before",
    r"overloaded|resource (?:has been )?exhausted|temporarily unavailable",
    r"\bcredits?\b|\bbilling\b|\bbalance\b|\bpayment|\bafford\b|insufficient (?:funds|usd)|spending",
    r"\bsubscription|\b(?:current|your|free|trial) (?:\w+ )?plans?\b|upgrade (?:to a|your)|extra usage",
    r"trial key|\bapi[ _-]?key\b",
    r"timed? ?out|\bdeadline\b|took too long",
    r"content[ _-]?(?:filter|management|policy|moderation)|\bmoderation|\bflagged|inappropriate",
    r"频率|速率|限流|频繁|并发|每分钟|每秒|每天|每日|每月|今日|次数|用量|余额|欠费|额度|配额|套餐|充值|敏感|违规|审核",
    r"超时|稍后|レート|毎分|分あたり|回数|タイムアウト|분당|속도|사용량|할당량|시간 초과",
    r"por minuto|par minute|pro minute|al minuto|в минуту|na minutę|лимит запросов",
    r"\bminut[oau]\b|\bminuut|\bminutt?en?\b|минут|хвилин|dakika|دقيقة|دقیقه|मिनट|phút|นาที",
    r"pro tag\b|par jour|por d[ií]a|al giorno|per dag\b|günlük|в день|на день|dziennie|1日|하루|في اليوم|प्रति दिन|ต่อวัน",
    r"crédit|crediti\b|\bguthaben|kontingent|\bsaldo\b|\bkredi\b|kredyt|кредит|баланс|クレジット|残高|크레딧|잔액|رصيد|क्रेडिट|เครดิต",
    r"limite de (?:taux|débit|requ)|límite de (?:velocidad|solicitudes|tasa)",
)

_OUTPUT = any_of(
    r"max[ _]?(?:new|output|completion)?[ _]?tokens?\b(?! of \d+ exceeded)|maxoutputtokens|maximum (?:output )?tokens",
    r"output[ _]tokens?|completion tokens?|(?:output|generation|completion) length|max_length",
    r"(?:reasoning|thinking) (?:tokens?|budget)|budget_tokens",
    r"\b(?:response|output|generat\w+)(?: text)? (?:exceed|is too|too)",
    r"输出(?:长度|内容|token)|生成长度|出力トークン|출력",
)
# States which values `max_tokens` may have, even where the window is named beside it.
_OUTPUT_CAP = re.compile(r"max_\w*tokens (?:must|should|can|may|cannot) [^.]{0,40}?\d")
# The prompt is named before the output: both together are too long.
_PROMPT_BEFORE = any_of(
    r"\b(?:prompts?|inputs?|messages?|conversation|context|history|tokens in|request has)\b", "输入|上下文"
)
# The prompt was counted, or its window named.
_PROMPT_COUNTED = any_of(
    r"(?:max\w*|models?) (?:\w+ ){0,2}(?:context|sequence|prompt|input) (?:length|window|size)",
    r"exceeds? (?:the |models? )*(?:maximum )?context|(?:prompt|input) length|\btoken count|prompt and",
    r"\b(?:input|prompt|inputs) tokens?\b|in the messages|your (?:prompt|messages)",
    r"tokens in (?:the |your )?(?:context|prompt)",
)
_NO_ROOM = re.compile(NO_ROOM)

_IN_TOKENS = any_of(
    r"\d+ (?:input |prompt )?tokens|context (?:window|length|size|limit)|token limit",
    r"(?:total|message|input) tokens",
)
_BYTES = any_of(
    r"\bbytes?\b|\d ?(?:[kmg]i?b)\b|entity too large|payload|request[ _]too[ _]large|larger than max \(",
    r"(?:request|body|message)(?: body)? size|body (?:too|limit)|content[- ]length|upload|\bfile\b",
    r"request exceeds the maximum|请求体|文件",
)
_MEDIA = re.compile(r"\b(?:images?|pixels?|pdf|pages?|audio|video|dimensions?|resolution)\b|图片|图像")
_OTHER = any_of(
    r"string (?:too long|should have|length)|array too long|expected (?:an?|one of) ",
    r"input should be (?:a |an |less|greater)|field required|extra inputs|\bschema\b|valid json",
    r"tool_use|tool_call|tool call id|jinja|unsupported parameter|unknown parameter",
    r"batch[ _]size|too small|\btemperature\b|\btop_p\b|decimal|bufio",
    r"logit_bias|stop sequence|\b(?:api|access|auth\w*|jwt|session|bearer|refresh) tokens?\b",
    r"failed to load|not found|does not exist",
    r"number of (?:messages|images|tools|functions|texts|documents)",
    r"too many (?:messages|images|tools|functions)",
    r"(?:\bur[il]|header\w*|name|title|description|identifier|\bid)s? .{0,12}too (?:long|large)",
)


# -- the cause of an error ---------------------------------------------------------------------------------------

_MAX_DOUBTFUL = 4  # doubtful clauses passed over: an error names its kind at its start
_CLAUSE_END = re.compile(rf"[.!?;,](?![{WORD}])|[。、]")  # not the signs in 1.5 or [1,30720]
_DOUBTFUL = re.compile(r"\btokens?\b|\brequests?\b|\blimit|\bnumber of|\blarge|\bbig|\bsize|トークン|토큰|токен")
_CERTAIN = re.compile(
    r"context|window|length|model_len|\blong|\btoken count|\bsupports?\b"
    r"|\b(?:prompt|conversation|history)\b(?! tokens| limit)|上下文|长|コンテキスト|長|컨텍스트|контекст"
)


def cause_of(text: str) -> str:
    """The part of a normalized `text` that names the cause, without the advice that follows it.

    It ends with the first clause that can only mean that a prompt does not fit. "The prompt is too long" is such a
    clause; "too many tokens" may go on with "per minute", and "too large" may be a number of bytes. Without such a
    clause all of the text is the cause.
    """
    for found in islice(TOO_LONG.finditer(text), _MAX_DOUBTFUL):
        end = _CLAUSE_END.search(text, found.end())
        if end and end.group() == "?":
            continue  # a question states nothing
        so_far = text[: end.start() if end else None]
        clause = so_far[max(so_far.rfind(sign, 0, found.start()) for sign in (". ", ", ", "; ", "。")) + 1 :]
        if _CERTAIN.search(clause) or not _DOUBTFUL.search(clause):
            return so_far
    return text


# -- the vetoes --------------------------------------------------------------------------------------------------


def code_rules_out_overflow(codes: Iterable[str], params: Iterable[str]) -> bool:
    """True when a typed code (lower case, letters and digits only) or a blamed parameter is about something else."""
    return any(_HARD_CODE.search(code) or _SOFT_CODE.search(code) for code in codes) or any(
        map(_OTHER_PARAM.match, params)
    )


def is_about_rate_or_quota(text: str) -> bool:
    """The hard veto: True when the cause in a normalized `text` is a rate or a quota, or a payment, a credential, a
    filter or a timeout."""
    return _HARD.search(cause_of(text)) is not None


def is_about_another_size(text: str) -> bool:
    """The soft veto: True when the cause in a normalized `text` is a size other than the prompt's in tokens."""
    text = cause_of(text)
    if _OTHER.search(text):
        return True
    if (_BYTES.search(text) or _MEDIA.search(text)) and not _IN_TOKENS.search(text):
        return True
    output = _OUTPUT.search(text)
    if output is None or _NO_ROOM.search(text) or _PROMPT_BEFORE.search(text[: output.start()]):
        return False
    return bool(_OUTPUT_CAP.search(text)) or not _PROMPT_COUNTED.search(text)
