"""The words in English of the lessons on length, cost and repetition."""

from __future__ import annotations

LENGTH: dict[str, str] = {
    # 4 length bias
    "length.text": (
        "A search ranks finished texts by the sum of their log-probabilities. Every token adds a "
        "negative number, so the sum falls with each of them, and the plain sum prefers short "
        "texts.\n\n"
        "The remedy is to divide the sum by something that grows with the length. `length`: by "
        "length^α, as transformers does. `gnmt`: by ((5 + length) / 6)^α, as in Google’s "
        "translation system. `none`: by nothing."
    ),
    "length.ask": (
        "Text A has 5 tokens of probability 0.8, text B has 10 of 0.85. Somebody who wants short "
        "outputs raises length_penalty from 0 to 2. Which text wins then?"
    ),
    "length.ask.short": "A, the short one",
    "length.ask.long": "B, the long one",
    "length.ask.none": "Neither: both are penalised alike",
    "length.ask.why": (
        "At 0 the plain sums are compared, {short0} against {long0}, and A wins. At 2 it is "
        "{short2} against {long2}, and B wins. Scores are negative: dividing by a larger number "
        "brings them closer to 0, that is, up."
    ),
    "length.short": "A",
    "length.long": "B",
    "length.tokens": "Text {name}: tokens",
    "length.prob": "Text {name}: probability of each",
    "length.norm": "Norm",
    "length.norm.length": "length",
    "length.norm.gnmt": "gnmt",
    "length.norm.none": "none",
    "length.penalty": "α, alias length_penalty",
    "length.penalty.help": "Positive favours longer; 0 is the plain sum.",
    "length.reset": "The textbook’s texts",
    "length.wins.short": "A scores {short}, B {long}: **A wins**.",
    "length.wins.long": "A scores {short}, B {long}: **B wins**.",
    "length.wins.none": "Both score {short}: a tie.",
    "length.flat": "Without a norm α changes nothing.",
    "length.never": "No α changes the order of these two.",
    "length.cross": (
        "Both score alike at α = {where}: {below} wins below it, {above} wins above it."
    ),
    "length.setting": "Norm and α",
    "length.winner": "Wins",
    "length.tie": "tie",
    "length.caption": "Table 9-6: five settings, the textbook’s two texts",
    "length.caption.own": "The settings of table 9-6, your two texts",
    "length.name": "A misleading name",
    "length.name.text": (
        "The α of transformers is called `length_penalty`, but it penalises nothing that is long: "
        "**positive favours longer texts**, since scores are negative. 0 is the plain sum, which "
        "favours shorter ones; below 0 they are favoured even more.\n\n"
        "Nor is 1.0, the default, neutral. It compares mean log-probabilities per token: a longer "
        "text wins as soon as its tokens are a little more probable on average, however many "
        "they are."
    ),
    "length.source.chapter": "A textbook’s chapter on decoding, section {section}, table 9-6",
    "length.source.docs": "transformers: generation parameters",
    # 5 what beams cost
    "cost.text": (
        "Beam search of width W writes W texts side by side, t tokens each, behind a prompt of P "
        "tokens.\n\n"
        "**Work.** The prompt goes through the weights once, then every beam’s tokens do: P + W·t "
        "tokens instead of P + t.\n\n"
        "**Memory.** The cache keeps a key and a value of every token in every layer. With a copy "
        "of the prompt in each beam that makes W·(P + t) tokens; if all beams share one, at most "
        "P + W·t.\n\n"
        "**Waiting.** A step reads the weights once for all beams, so it takes less than W single "
        "steps. But nothing can be shown as final until the beams agree."
    ),
    "cost.ask": (
        "{model}, a prompt of {prompt} tokens, {width} beams, {steps} new tokens. How much of the "
        "cache does sharing the prompt save?"
    ),
    "cost.ask.quarter": "About a quarter",
    "cost.ask.half": "About half",
    "cost.ask.most": "About three quarters",
    "cost.ask.why": (
        "{saved}: {shared} MiB instead of {naive}. The longer the prompt, the closer the saving "
        "comes to 1 − 1/W, here {limit}: all copies of the prompt but one."
    ),
    "cost.model": "Model",
    "cost.width": "Beams W",
    "cost.prompt": "Prompt P",
    "cost.steps": "New tokens t",
    "cost.token": "One token",
    "cost.token.tip": (
        "A key and a value for each layer and key-value head, two bytes a number: "
        "2 × {layers} × {heads} × {dim} × 2."
    ),
    "cost.naive": "Prompt copied",
    "cost.naive.tip": "W·(P + t) tokens in the cache.",
    "cost.shared": "Prompt shared",
    "cost.shared.tip": "P + W·t tokens in the cache.",
    "cost.saved": "Saved",
    "cost.saved.tip": "The share of the memory that one prompt for all beams saves.",
    "cost.positions": "Tokens computed",
    "cost.positions.tip": "P + W·t tokens go through the weights.",
    "cost.work": "Work",
    "cost.work.tip": "Over that of one beam: (P + W·t) / (P + t).",
    "cost.caption": "The same search in other models, 16 bits a number",
    "cost.head.model": "Model",
    "cost.head.shape": "Layers × heads × size",
    "cost.head.token": "KiB a token",
    "cost.head.naive": "Copied, MiB",
    "cost.head.shared": "Shared, MiB",
    "cost.measure": "Measured",
    "cost.measure.text": (
        "This page’s chat model runs one beam and W beams, with the W, P and t above (at most "
        "{width} beams, {prompt} prompt tokens and {steps} new ones), and its cache counts its own "
        "bytes."
    ),
    "cost.measure.go": "Measure",
    "cost.measuring": "Measuring, or waiting for those who came before…",
    "cost.stopped": "Stopped before both searches had ended.",
    "cost.where": "Measured just now, in {precision} on {device}.",
    "cost.took": "With {width} beams a token took {ratio} times as long as with one.",
    "cost.equal": "The bytes equal both formulas.",
    "cost.unequal": "The bytes differ from the formulas: this cache grows in blocks.",
    "cost.measured": "{prompt} prompt tokens, {steps} new ones in the cache of each beam",
    "cost.head.width": "Beams",
    "cost.head.ms": "ms a token",
    "cost.head.kept": "Cache, MiB",
    "cost.head.formula_shared": "P + W·t, MiB",
    "cost.head.copied": "Copied, MiB",
    "cost.head.formula_naive": "W·(P + t), MiB",
    "cost.stream": "Why it can’t be streamed",
    "cost.stream.text": (
        "Until the search ends, another beam may overtake the best one. Only what all beams begin "
        "with is certain. In this recorded search of {width} beams for “{prompt}”, only {certain} "
        "tokens were certain after step {step} of {count}, and after {wrong} steps the best text "
        "so far held tokens that did not last. Sampling and greedy decoding show each token as "
        "final the moment it is there."
    ),
    "cost.source.chapter": (
        "A textbook’s chapter on decoding, section {section} (Llama 3 8B: 600 and 225 MiB)"
    ),
    # 7 likelihood repeats itself
    "repetition.text": (
        "If a language model knows which texts are probable, why not write the most probable one? "
        "Because it is dull. On an open-ended prompt, methods that maximise likelihood fall into "
        "loops: greedy and beam search write the same sentence again and again, and the model "
        "finds each repetition more probable than the one before. Texts by people are not like "
        "that: in them, improbable words keep turning up (Holtzman et al. 2020)."
    ),
    "repetition.ask": (
        "Greedy search writes “{sentence}” again and again. With each repetition, the probability "
        "of its tokens …"
    ),
    "repetition.ask.falls": "falls: the model has said it already",
    "repetition.ask.same": "stays the same",
    "repetition.ask.rises": "rises",
    "repetition.ask.why": (
        "The mean probability of its tokens, time after time: {laps} %. Every repetition in the "
        "context makes the next one more probable, so nothing ends the loop."
    ),
    "repetition.runs": "Three ways to go on",
    "repetition.recorded": "Recorded in {precision} on {device}. Prompt: “{prompt}”",
    "repetition.fresh": "Decoded just now, in {precision} on {device}. Prompt: “{prompt}”",
    "repetition.axis": "probability, mean of {window} tokens",
    "repetition.head.run": "Run",
    "repetition.head.share": "Repeated {n}-grams",
    "repetition.head.loop": "Loop at the end, tokens × times",
    "repetition.head.probability": "Mean probability",
    "repetition.head.logprob": "ln p a token",
    "repetition.remedy": (
        "Marked: tokens in a stretch of four that the text already had. Sampling seldom loops, but "
        "it sometimes draws from the long tail of improbable tokens, and loses its thread. Cutting "
        "the tail off (`top_p`, nucleus sampling) avoids both; a low temperature "
        "brings the loops back. Try it:"
    ),
    "repetition.prompt": "Prompt",
    "repetition.prompt.help": "Continued as it stands, without the chat template.",
    "repetition.temperature": "Temperature of sampling",
    "repetition.top_p": "Top p of sampling",
    "repetition.go": "Decode",
    "repetition.progress": "{run}: {count} tokens",
    "repetition.stopped": "Stopped before all runs had ended.",
    "repetition.source.chapter": "A textbook’s chapter on decoding, section {section}",
    "source.1904.09751": "why likelihood loops; nucleus sampling",
    "source.1908.04319": "the share of repeated n-grams",
}
