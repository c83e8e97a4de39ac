"""What an operator sees of a running proxy: the newest exchanges, what became of each conversation, and why.

Everything here is made when somebody looks. The request path only appends one value to a bounded ring (`ring`); the
page itself, plain files without a build step, lies in `page/`. Text of conversations is kept only where `[ui] text` is
on, in memory and bounded.
"""
