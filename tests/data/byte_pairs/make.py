#!/usr/bin/env python3
"""Made vocab.json, merges.txt and cases.json beside this file: a byte-pair encoding of GPT-2's kind
with 400 tokens, and what Hugging Face's `tokenizers` (0.23) makes of some texts with it."""
import json
import pathlib

from tokenizers import ByteLevelBPETokenizer

here = pathlib.Path(__file__).parent
texts = [
    "In the beginning God created the heaven and the earth. And the earth was without form, and void;",
    "I'll say it's what they've done: we're here, I'm there, he'd go; don't! 'tis 's S'more 'RE",
    "  leading and   inner  spaces\tand\ttabs \n\n new lines\r\n at the end   ",
    "1234 567,890 3.14 x2y ² ½ Ⅷ ٣",
    "Grüße, naïve façade – «Ελληνικά» Русский 日本語 한국어 \u00a0non-breaking\u2003em 👍🏽 e\u0301",
    "a_b-c.d/e\\f@g #h $i %j ^k &l *m (n) [o] {p} <q> ~r `s",
    "", " ", "  ", "\n", " \n", "x", " x", "'", "''s", "<|endoftext|>",
]
(here / "corpus.tmp").write_text("\n".join(texts * 3), encoding="utf-8")
tokenizer = ByteLevelBPETokenizer()
tokenizer.train([str(here / "corpus.tmp")], vocab_size=399, min_frequency=2)
tokenizer.save_model(str(here))
(here / "corpus.tmp").unlink()
vocabulary = json.loads((here / "vocab.json").read_text(encoding="utf-8"))
vocabulary["<|endoftext|>"] = len(vocabulary)
(here / "vocab.json").write_text(json.dumps(vocabulary) + "\n", encoding="utf-8")
cases = [{"text": t, "tokens": tokenizer.encode(t).ids} for t in texts]
(here / "cases.json").write_text(json.dumps(cases, indent=1) + "\n", encoding="utf-8")
