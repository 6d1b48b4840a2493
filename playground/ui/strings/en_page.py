"""The words in English of what surrounds the panels: header, settings, About."""

from __future__ import annotations

PAGE: dict[str, str] = {
    "app.title": "Decoding Playground",
    "app.line": (
        "A language model writes one token at a time, and a decoding method decides which. "
        "Give five methods the same prompt and see what each writes, how fast, and at what cost."
    ),
    "language": "English",
    # header
    "top.label": "Page",
    "top.theme": "Light or dark",
    "top.link": "Copy link",
    "top.link.tip": "Copy a link that restores this whole setup",
    "top.link.done": "Link copied",
    "top.embed": "Embed",
    "top.embed.tip": "Show this panel in another page",
    "embed.title": "Embed this panel",
    "embed.help": "Shows the present tab and setup, without this header, in the present theme.",
    "embed.iframe": "As a frame",
    "embed.component": "As a component",
    "embed.copy": "Copy",
    "embed.close": "Close",
    "tab.compare": "Compare",
    "tab.lab": "Token lab",
    "tab.about": "About",
    # prompt, pair, settings, runs
    "pair.label": "Model pair",
    "pair.absent": "loads when you press Run",
    "pair.loading": "loading…",
    "pair.ready": "{precision} on {device} · ready",
    "pair.failed": "not loaded: {reason}",
    "pair.unavailable": "The models could not be loaded: {reason}",
    "advanced": "More settings for every run",
    "edit.open": "Change, add or remove runs",
    "edit.label": "Settings of",
    "edit.name": "Name",
    "edit.duplicate": "Duplicate",
    "edit.remove": "Remove",
    "edit.add": "Add a run",
    "prompt.label": "Prompt",
    "prompt.placeholder": "What should the model write?",
    "examples.label": "Examples",
    "runs.label": "Runs",
    "run": "Run",
    "stop": "Stop",
    "raw.label": "Raw prompt",
    "reference.label": "Reference answer",
    "reference.help": "A right answer to score every text by: BLEU and chrF in table and chart.",
    "raw.help": "Leave the chat template out: the model continues the prompt as it stands.",
    "stop.lines": "Stop strings",
    "stop.lines.help": "One a line; a run ends at the first, which is cut.",
    "repeats.label": "Repeats",
    "repeats.help": "Time every run this often and report the median.",
    "status.idle": "Ctrl+Enter (⌘+Enter) runs, Esc stops.",
    "status.run": "{label}, {number} of {count}",
    "status.done": "Done: {tokens} tokens in {seconds} of decoding.",
    "status.recorded": "Recorded in {precision} on {device}. Press Run to decode here and now.",
    "status.stopped": "Stopped. What was decoded so far is shown.",
    "status.waiting": "Waiting for the models…",
    # results
    "view.x": "Chart: across",
    "view.y": "Chart: up",
    "view.baseline": "Speed-up against",
    "baseline.auto": "default: sampling",
    "view.first": "Compare the text of",
    "view.second": "with",
    "view.nothing": "nothing",
    "view.inside": "Look inside",
    "inside.rounds": "{name}: round by round",
    "inside.tree": "{name}: search tree",
    "inside.none": "Nothing to look into: none of these runs drafted or searched.",
    "axis.tokens_per_s": "Tokens per second",
    "axis.speedup": "Speed-up",
    "axis.tokens_per_target_pass": "Tokens a target pass",
    "axis.fidelity": "Fidelity",
    "axis.mean_divergence": "KL spent a token",
    "axis.target_logprob": "ln p a token",
    "axis.agreement": "Agreement with greedy",
    "axis.bleu": "BLEU",
    "axis.chrf": "chrF",
    "save.png": "Chart as PNG",
    "save.svg": "Chart as SVG",
    "save.csv": "Numbers as CSV",
    "save.json": "Trace as JSON",
    "files.shipped": "Recorded comparisons",
    "trace.fact": "Fact",
    "trace.story": "Story",
    "trace.summary": "Summary",
    "files.open": "Open a trace file",
    "error.title": "Not run",
    "error.empty": "an empty field is not allowed",
    "error.link": "This link cannot be read; the page is as usual",
    "error.trace": "Not opened",
    "error.internal": "The run failed: {reason}",
    "queue.full": "{count} requests are waiting already. Please try again in a minute.",
    "error.memory": (
        "There is not enough memory for this run. Fewer tokens, fewer beams or a shorter prompt "
        "need less."
    ),
    "error.gpu": (
        "No GPU was lent: {reason} Fewer tokens, runs or repeats need less of it; signing in to "
        "Hugging Face gives more."
    ),
    # about
    "about.what": "What this is",
    "about.what.text": (
        "The same prompt through several decoding methods, side by side: what each writes, how "
        "long it takes, and how far it departs from the model that it decodes for. Everything is "
        "measured on this machine, one run at a time, after a warm-up."
    ),
    "about.methods": "Methods",
    "about.rules": "Rules that judge a draft",
    "about.numbers": "What the numbers mean",
    "about.pairs": "Model pairs and their licences",
    "about.sources": "Sources",
    "about.licence": "Licence",
    "about.licence.text": (
        "The playground is open source under Apache-2.0. Its figures and traces may be used "
        "freely; say where they come from."
    ),
    "source.2211.17192": "speculative decoding",
    "source.2302.01318": "speculative sampling",
    "source.2403.10444": "block verification",
    "source.mentored": "mentored decoding",
    "source.2609.30474": "mentored decoding for other divergences",
    "source.1609.08144": "the length norm of beam search",
    "source.1610.02424": "diverse beam search",
    "source.1908.10090": "exact search",
}
