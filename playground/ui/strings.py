"""Every word of the page that is not a parameter's own label or help, by language and id."""

from __future__ import annotations

EN: dict[str, str] = {
    "app.title": "Decoding Playground",
    "app.line": (
        "A language model writes one token at a time, and a decoding method decides which. "
        "Give five methods the same prompt and see what each writes, how fast, and at what cost."
    ),
    "pair.loading": "loading…",
    "pair.ready": "{precision} on {device} · ready",
    "pair.failed": "not loaded: {reason}",
    "pair.unavailable": "The models could not be loaded: {reason}",
    "prompt.label": "Prompt",
    "prompt.placeholder": "What should the model write?",
    "examples.label": "Examples",
    "runs.label": "Runs",
    "run": "Run",
    "stop": "Stop",
    "advanced": "Advanced",
    "advanced.all": "Every run",
    "advanced.law": "Sampling, and the law that fidelity is measured against",
    "advanced.search": "Beam search",
    "advanced.draft": "Speculative and mentored",
    "raw.label": "Raw prompt",
    "raw.help": "Leave the chat template out: the model continues the prompt as it stands.",
    "stop.lines": "Stop strings",
    "stop.lines.help": "One a line; a run ends at the first, which is cut.",
    "repeats.label": "Repeats",
    "repeats.help": "Time every run this often and report the median.",
    "card.idle": "Press Run.",
    "card.waiting": "waiting",
    "card.running": "running",
    "card.provisional": "best so far, may change",
    "card.done": "",
    "card.stopped": "stopped",
    "card.failed": "failed",
    "card.settings": "settings",
    "card.empty": "(no text)",
    "card.error": "{reason} Change the settings or press Run again.",
    "finish.eos": "ended by itself",
    "finish.length": "token limit",
    "finish.stop": "stop string",
    "finish.cancelled": "stopped",
    "finish.deadline": "out of time",
    "badge.lossless": "lossless",
    "badge.lossy": "lossy",
    "badge.bounded": "lossy, ≤ {budget} {unit}",
    "badge.search": "search",
    "badge.sampled": "sampled",
    "badge.lossless.tip": "The output follows exactly the target's distribution.",
    "badge.lossy.tip": "The output may depart from the target's distribution.",
    "badge.bounded.tip": (
        "The output may depart from the target's distribution by at most this, per token."
    ),
    "badge.search.tip": "Looks for probable text; nothing is drawn at random.",
    "badge.sampled.tip": "Drawn from the target's distribution.",
    "metric.speedup": "Speed-up",
    "metric.speedup.tip": "Tokens per second over those of {baseline}.",
    "metric.speed": "Speed",
    "metric.speed.tip": "New tokens over total seconds, the prompt's pass included.",
    "metric.total": "Total",
    "metric.total.tip": "Seconds of decoding, without waiting or drawing this page.",
    "metric.first": "First token",
    "metric.first.tip": "Seconds until the first token: reading the prompt, mostly.",
    "metric.passes": "Target passes",
    "metric.passes.tip": "Forward passes of the target model, the prompt's own included.",
    "metric.accepted": "Accepted",
    "metric.accepted.tip": "Draft tokens accepted over draft tokens proposed.",
    "metric.per_pass": "Tokens a pass",
    "metric.per_pass.tip": "New tokens over target passes.",
    "metric.spent": "{divergence} spent",
    "metric.spent.tip": (
        "Divergence of the output law from the target's, mean over the verified positions, "
        "and the budget D it must stay within."
    ),
    "metric.fidelity": "Fidelity",
    "metric.fidelity.tip": (
        "exp(−mean KL(output law‖target's law)): 100 % where the output follows the target's law."
    ),
    "metric.logprob": "ln p a token",
    "metric.logprob.tip": "Mean log-probability of the text under the target at temperature 1.",
    "unit.speed": "tok/s",
    "unit.seconds": "s",
    "unit.milliseconds": "ms",
    "unit.nats": "nats",
    "kind.accepted": "accepted",
    "kind.mentored": "accepted only because D > 0",
    "kind.residual": "correction",
    "kind.bonus": "bonus",
    "kind.plain": "drawn or searched",
    "tip.target": "target {value}",
    "tip.draft": "draft {value}",
    "tip.accept": "accepted with probability {value}",
    "tip.exact": "{value} in exact speculation",
    "tip.rejected": "replaces a rejected draft token",
    "tip.divergence": "spends {value} nats",
    "table.run": "Run",
    "table.speedup": "×",
    "table.speed": "tok/s",
    "table.total": "total s",
    "table.first": "first s",
    "table.passes": "passes",
    "table.accepted": "accepted",
    "table.per_pass": "tok/pass",
    "table.spent": "{divergence} nats",
    "table.fidelity": "fidelity",
    "table.logprob": "ln p/tok",
    "table.baseline": "the baseline",
    "table.caption": "The same numbers",
    "status.idle": "Ctrl+Enter (⌘+Enter) runs, Esc stops.",
    "status.run": "{label}, {number} of {count}",
    "status.done": "Done: {tokens} tokens in {seconds} of decoding.",
    "status.stopped": "Stopped. What was decoded so far is shown.",
    "status.waiting": "Waiting for the models…",
    "verdict.one": "One run alone: select another to compare it with.",
    "verdict.none": "No speculative run among these: nothing to judge.",
    "verdict.paid": "Speculation paid here",
    "verdict.even": "Speculation made no difference here",
    "verdict.lost": "Speculation lost here",
    "verdict.numbers": (
        "{speedup}×, at {accepted} accepted and a draft step costing {cost} of a target pass"
    ),
    "verdict.why": "a round gave {gain} tokens and took as long as {price} plain ones",
    "verdict.lossy": (
        "{label} reached {speedup}× at {accepted} accepted, for {spent} {unit} a token"
    ),
    "error.title": "Not run",
    "error.prompt": "at most {limit} characters",
    "error.runs": "from 1 to {limit} runs",
    "error.page_limit": "a whole number from 1 to {limit} on this page",
    "error.internal": "The run failed: {reason}",
}

LANGUAGES: dict[str, dict[str, str]] = {"en": EN}


def say(key: str, language: str = "en", **values: object) -> str:
    """The string `key` of a language, with its placeholders filled in."""
    return LANGUAGES[language].get(key, EN[key]).format(**values)


EXAMPLES: dict[str, str] = {
    "Fact": "Why is the sky blue?",
    "Story": "Write a short story about a lighthouse keeper who finds a message in a bottle.",
    "Summary": (
        "Summarize in one sentence: Bees visit flowers to collect nectar and pollen. While they "
        "move from flower to flower, pollen sticks to their bodies and reaches other flowers, "
        "which can then make seeds and fruit. A third of the food we eat depends on this."
    ),
    "Translate": "Translate to French: Good morning, my friend.",
    "Code": "Write a Python function that returns the sum of the even numbers in a list.",
    "Arithmetic": "Tom has 5 apples and buys 8 more. How many apples does he have?",
    "List": "List five tips for sleeping better.",
    "Rewrite": "Rewrite in the past tense: I walk to school and meet my friends.",
    "Email": "Write a short email to a teacher asking for one more day for the homework.",
    "Explain": "Explain photosynthesis in three short sentences.",
}
