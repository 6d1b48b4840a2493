"""The words in English of the Learn tab and its first three lessons."""

from __future__ import annotations

LEARN: dict[str, str] = {
    "tab.learn": "Learn",
    "learn.turns": "Other lessons",
    "learn.sources": "Sources",
    "learn.join": " ",  # between two sentences
    "learn.right": "Right.",
    "learn.wrong": "Not so.",
    "lesson.tree": "Greedy can lose",
    "lesson.step": "One beam step",
    "lesson.stopping": "When to stop",
    "lesson.length": "Length bias",
    "lesson.cost": "What beams cost",
    "lesson.width": "Wider is not better",
    "lesson.repetition": "Likelihood repeats itself",
    "lesson.speculative": "Speculative decoding",
    "lesson.mentored": "Mentored decoding",
    "lesson.tasks": "Which tasks gain?",
    "learn.chapter": "a textbook’s chapter on decoding, section {section}",
    # 1 greedy can lose
    "lose.text": (
        "Greedy decoding takes the most probable token at each step. But a text is as probable as "
        "the **product** of its steps, and the best first step need not begin the best text.\n\n"
        "Beam search keeps the W best partial texts instead of one, so that a second-best first "
        "step can still win. In the tree below a text has two tokens: A, B or C, then x, y or z."
    ),
    "lose.ask": (
        "Greedy begins with A, the most probable first token. Which text does a beam of two return?"
    ),
    "lose.ask.first": "Ax, like greedy",
    "lose.ask.second": "Bx",
    "lose.ask.other": "Ay",
    "lose.ask.why": (
        "Greedy ends at Ax with 0.5 × 0.4 = {greedy}. The beam still has B, and finds "
        "0.4 × 0.9 = {beam}: **{ratio} times** as probable."
    ),
    "lose.width": "Beams W",
    "lose.search": "Search",
    "lose.first": "First token",
    "lose.after": "After {name}",
    "lose.reset": "The textbook’s numbers",
    "lose.change": "Change the numbers",
    "lose.change.text": (
        "A law here is a probability distribution over the next token; each must sum to 1. Those "
        "after the start, A and B are a textbook’s; the one after C is ours and decides nothing, "
        "since no path through C can reach more than 0.1."
    ),
    "lose.nothing": "nothing",
    "lose.fault.sum": "{where}: the three probabilities sum to {total}; they must sum to 1.",
    "lose.fault.number": "{where}, {name}: {value} is not a number from 0 to 1.",
    "lose.greedy": "Greedy ends at **{name}**: {product} = {joint}.",
    "lose.beam": "A beam of {width} ends at **{name}**: {product} = {joint}, {than}",
    "lose.same": "no more probable.",
    "lose.times": "{ratio} times as probable.",
    "lose.best": "No text is more probable.",
    "lose.missed": "It misses the best of all, **{name}**: {product} = {joint}.",
    "lose.head.text": "text",
    "lose.head.product": "steps",
    "lose.head.joint": "probability",
    "lose.head.logprob": "ln p",
    "lose.head.found": "found by",
    "lose.mark.greedy": "greedy",
    "lose.mark.beam": "beam",
    "lose.mark.best": "best of all",
    "lose.sign.greedy": "greedy",
    "lose.sign.beam": "beam",
    "lose.sign.best": "★",
    "lose.key.greedy": "greedy",
    "lose.key.beam": "beam",
    "lose.key.best": "best of all nine",
    "lose.key.unseen": "pruned: not looked at",
    "lose.figure": "A tree of two steps.",
    "lose.figure.found": "Greedy ends at {greedy}, the beam at {beam}.",
    # 2 one beam step
    "step.text": (
        "Beam search holds W partial texts, a row each. Every step is **four moves** over tensors "
        "whose shapes follow from W and from V, the number of tokens that the model knows.\n\n"
        "Here are the moves on the tree of lesson 1 (V = 3), and on a recorded search of a small "
        "chat model (V = 49,152), which differs in nothing but its size."
    ),
    "step.ask": (
        "Two beams, 0 for A and 1 for B, three tokens: x 0, y 1, z 2. The largest of the six "
        "totals stands at place {flat} of the flattened tensor. What does it continue?"
    ),
    "step.ask.first": "A with y",
    "step.ask.second": "B with x",
    "step.ask.third": "B with y",
    "step.ask.why": (
        "The parent is `{flat} // 3 = 1`, which is B, the token `{flat} % 3 = 0`, which is x. One "
        "number carries both."
    ),
    "step.source": "Search",
    "step.source.tree": "The tree, V = 3",
    "step.source.real": "Chat model, V = 49,152",
    "step.number": "Step",
    "step.move": "Move",
    "step.expand": "Expand",
    "step.score": "Score",
    "step.prune": "Prune",
    "step.collect": "Collect",
    "step.expand.text": (
        "One pass of the model gives {width} rows of {size} logits. Their log-softmax is **ln p** "
        "of each token behind each beam."
    ),
    "step.score.text": (
        "Each row’s own score is added to all of its {size} continuations: logarithms add up where "
        "probabilities multiply."
    ),
    "step.prune.text": (
        "The totals are laid out in one row, and the largest are kept. A place j in it gives back "
        "the parent, `j // {size}`, and the token, `j % {size}`."
    ),
    "step.collect.text": (
        "What ended goes to the finished set. The rest are the next rows, and the cache is put "
        "into the order of their parents."
    ),
    "step.recorded": "Of all continuations the best twelve were recorded.",
    "step.head.beam": "beam",
    "step.head.score": "score",
    "step.head.logprobs": "ln p of its continuations",
    "step.head.totals": "score + ln p",
    "step.head.text": "text",
    "step.head.flat": "j",
    "step.head.parent": "parent",
    "step.head.token": "token",
    "step.head.logprob": "ln p",
    "step.head.total": "total",
    "step.head.joint": "probability",
    "step.head.kept": "",
    "step.head.row": "next row",
    "step.head.from": "parent",
    "step.ended": "ended",
    "step.kept": "kept",
    "step.pruned": "pruned",
    "step.finished": "finished",
    "step.copies": "Row {rows} goes on more than once, and is copied.",
    "step.drops": "Row {rows} does not go on, and is dropped.",
    "step.each_once": "Every row goes on once: only their order may change.",
    "step.cache": "And the cache",
    "step.cache.text": (
        "Keys and values of a text’s tokens are kept from step to step. When a next row continues "
        "another one than its own place held, its cache must move along. The prompt is the same "
        "for all rows, so our cache keeps it **once**. Choose which row each next row continues."
    ),
    "step.cache.parent": "Next row {row} continues row",
    "step.cache.prompt": "prompt, shared",
    "step.cache.before": "rows",
    "step.cache.after": "next rows",
    "step.cache.figure": "The next rows continue the rows {parents}.",
    "step.cache.reorder": "`reorder_cache([{parents}])`.",
    "step.cache.bytes": (
        "Held: {sum} = {tokens} tokens, **{bytes} bytes** (a key and a value of 4 bytes each). "
        "With a copy of the prompt in every row: {naive_sum} = {naive_tokens} tokens, "
        "{naive_bytes} bytes."
    ),
    # 3 when to stop
    "stopping.text": (
        "A beam search collects texts that have ended while others still grow. A longer text may "
        "yet score better, since scores are means over the length here. So when is it enough?\n\n"
        "Transformers has three answers, the modes of `early_stopping`. All three see the same "
        "search: two beams in a little language of a, b and an end, at most eight tokens."
    ),
    "stopping.ask": "Which mode returns the best text?",
    "stopping.ask.true": "True: stop at two finished",
    "stopping.ask.false": "False: stop when the best live beam is behind",
    "stopping.ask.never": '"never": stop when no live beam can win',
    "stopping.ask.same": "All the same",
    "stopping.ask.why": (
        "True stops after {true_step} tokens with a best score of {true_best}, False after "
        '{false_step} with {false_best}, "never" after {never_step} with **{never_best}**. '
        "Waiting cost four more steps and found a better text."
    ),
    "stopping.search": "Run the search",
    "stopping.number": "Tokens so far",
    "stopping.caption": (
        "Tokens so far: {step}. Finished: {count} of 2, the worst at {worst}, the best at {best}."
    ),
    "stopping.head.mode": "early_stopping",
    "stopping.head.bound": "best live, as credited",
    "stopping.head.verdict": "and so",
    "stopping.stopped": "stopped after {step}",
    "stopping.few": "goes on: fewer than {count} finished",
    "stopping.true": "stops: two finished",
    "stopping.beaten": "stops: not above the worst finished",
    "stopping.hope": "goes on: above the worst finished",
    "stopping.bounds": (
        "**True** looks at no score. **False** credits the best live beam with its score at its "
        "present length: a heuristic, which stops after 4 tokens though a step later the beam is "
        'ahead again. **"never"** divides its sum by the greatest length it may reach, which no '
        "continuation can beat, and so never stops too early. A ✕ "
        "marks where each stops."
    ),
    "stopping.settled": "Why beams cannot be streamed",
    "stopping.settled.text": (
        "Until the end, the best text so far may be replaced by another. Only what all live and "
        "finished texts begin with is **certain**, and could be shown as final."
    ),
    "stopping.head.step": "tokens so far",
    "stopping.head.best": "best so far",
    "stopping.head.agrees": "right in the end",
    "stopping.head.certain": "certain",
    "stopping.source.transformers": "transformers, GenerationConfig.early_stopping",
}
