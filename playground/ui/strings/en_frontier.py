"""The words of the Frontier tab in English."""

from __future__ import annotations

FRONTIER: dict[str, str] = {
    "tab.frontier": "Frontier",
    "frontier.intro": (
        "Many prompts through a grid of configurations: what does speed cost in quality? The "
        "dotted line joins what nothing beats on both axes. Bars are 95 % intervals over the "
        "prompts; where marks are many, those off the line show theirs when pointed at."
    ),
    "frontier.shown": "Result",
    "frontier.own": "Your sweep",
    "frontier.none": "No result ships with this copy. Run a sweep of your own below.",
    "frontier.count": "{prompts} prompts, {configurations} configurations.",
    # shipped results
    "result.article": "The article's experiment, on Bible verses",
    "result.article.note": (
        "English to French with the small pair of this project at temperature 0.3: sampling, "
        "speculative decoding, mentored decoding over draft lengths γ and budgets D, and the draft "
        "model alone."
    ),
    "result.article-hub": "The article's experiment, with T5-large and T5-small",
    "result.article-hub.note": "English to French on WMT15 at temperature 0.3, as published.",
    "result.lossy-translate": "Every lossy rule, translation",
    "result.lossy-translate.note": (
        "Each rule over its own setting at γ 5, English to French: does the provable optimum win "
        "in practice?"
    ),
    "result.lossy-chat": "Every lossy rule, chat",
    "result.lossy-chat.note": (
        "Each rule over its own setting on the chat pair. There is no reference text: quality is "
        "the fidelity to the target's distribution."
    ),
    "result.tasks": "Which tasks gain?",
    "result.tasks.note": (
        "Six kinds of task on the chat pair. What a budget buys on each kind is in the lesson "
        "“Which tasks gain?” of the Learn tab."
    ),
    "result.width": "Beam width",
    "result.width.note": (
        "Beam search from 1 to 32 beams, and exact search, English to French. The lesson on width "
        "in the Learn tab draws it."
    ),
    "result.own.note": "Run just now on this page.",
    # table
    "frontier.configuration": "Configuration",
    "frontier.draft_alone": "Draft alone",
    "frontier.speed": "Tokens/s",
    "frontier.speed.tip": "New tokens over seconds, both summed over all prompts.",
    "frontier.faster": "Faster",
    "frontier.faster.tip": "Speed over that of the fastest exact configuration, same prompts.",
    "frontier.accepted": "Accepted",
    "frontier.accepted.tip": "Accepted draft tokens over tested ones.",
    "frontier.per_pass": "Tokens a pass",
    "frontier.per_pass.tip": "New tokens per pass of the target.",
    "frontier.spent": "KL spent",
    "frontier.spent.tip": "Mean KL(target‖output) over verified positions, in nats.",
    "frontier.fidelity": "Fidelity",
    "frontier.fidelity.tip": "exp(−mean KL(output‖target)) over new tokens.",
    "frontier.logprob": "ln p a token",
    "frontier.logprob.tip": "Mean log-probability of the text under the target.",
    "frontier.bleu": "BLEU",
    "frontier.bleu.tip": "Of the whole corpus, by sacrebleu.",
    "frontier.bleu_change": "BLEU ±",
    "frontier.bleu_change.tip": "BLEU minus that of the fastest exact configuration, paired.",
    "frontier.chrf": "chrF",
    "frontier.chrf.tip": "Of the whole corpus, by sacrebleu.",
    "frontier.sentence_bleu": "Sentence BLEU",
    "frontier.sentence_bleu.tip": "Mean BLEU of single texts, as the article has it.",
    # what beats what
    "frontier.paired": (
        "On the Pareto front, against {baseline}, the fastest exact configuration, on the same "
        "{prompts} prompts:"
    ),
    "frontier.sentence": "{label}: {parts}.",
    "frontier.comma": ", ",
    "frontier.faster.by": "faster by {value}",
    "frontier.slower.by": "slower, {value} the speed",
    "frontier.lower": "{metric} lower by {value}",
    "frontier.higher": "{metric} higher by {value}",
    "frontier.unclear": "{metric} not clearly different, {value}",
    "frontier.spends": "KL spent {value} nats a token",
    # findings
    "findings.provisional": "Provisional: made from fewer prompts than planned.",
    "claims.title": "The article's figures beside ours",
    "claims.text": (
        "Tran-Thien 2023: T5-large with T5-small on a V100, WMT15: {sampling} tokens/s for "
        "sampling (sentence BLEU {bleu}), {exact} for speculative and {mentored} for mentored "
        "decoding at best. Models, texts and machine differ here, so orderings are compared, not "
        "figures."
    ),
    "claims.claim": "Claim",
    "claims.article": "Article",
    "claims.ours": "Ours [95 %]",
    "claims.ordering": "Same ordering?",
    "claims.agrees": "agrees",
    "claims.differs": "differs",
    "claims.open": "open",
    "claims.speculative_gain": "Speculative over sampling, tokens/s",
    "claims.mentored_speedup": "Mentored over sampling, tokens/s",
    "claims.mentored_gain": "Mentored over speculative, tokens/s",
    "claims.bleu_change": "Sentence BLEU of mentored, D {budget}, minus that of exact decoding",
    "claims.bleu_order": "Sentence BLEU at D {budget} minus that at the smaller budget",
    "verdicts.title": "Does the provable optimum win in practice?",
    "verdicts.text": (
        "Every other lossy rule against mentored decoding, over the rule's settings. Divergence: "
        "what the rule spends over what mentored decoding spends at equal acceptance; above 1 "
        "mentored decoding wins. Speed and tokens a pass: of mentored decoding over the rule's at "
        "equal divergence."
    ),
    "verdicts.rule": "Rule",
    "verdicts.divergence": "Divergence",
    "verdicts.speed": "Speed",
    "verdicts.passes": "Tokens a pass",
    "verdicts.winner": "Spends less",
    "verdicts.of": "Settings compared",
    "verdicts.mentored": "mentored",
    "verdicts.rule.wins": "the rule",
    "verdicts.open": "open",
    "verdicts.none": "–",
    "contrasts.title": "Many valid answers, or few?",
    "contrasts.text": (
        "Mean over translation, summary and story minus mean over fact, arithmetic and code. The "
        "article expects the first three to gain more."
    ),
    "contrasts.budget": "D",
    "contrasts.measure": "Gain",
    "contrasts.difference": "Difference [95 %]",
    "contrasts.answer": "Gain more",
    "contrasts.accepted_more": "acceptance",
    "contrasts.gain": "tokens a target pass, ×",
    "contrasts.per_nat": "acceptance per nat spent",
    "contrasts.broad": "many answers",
    "contrasts.narrow": "few answers",
    # record
    "frontier.record": "How this was made",
    "frontier.command": "Command line",
    "fact.pair": "Model pair",
    "fact.dataset": "Prompts from",
    "fact.prompts": "Prompts",
    "fact.precision": "Precision",
    "fact.seed": "Seed",
    "fact.started": "Started",
    "fact.device": "Device",
    "fact.processor": "Processor",
    "fact.cores": "Cores",
    "fact.threads": "Threads",
    "fact.python": "Python",
    "fact.torch": "torch",
    "fact.transformers": "transformers",
    "fact.git_commit": "Code",
    "fact.settings": "Settings of all",
    "fact.score": "{metric} signature",
    # downloads
    "save.html": "Chart as HTML",
    "save.table": "Table as CSV",
    "save.result": "All as JSON",
    "save.rows": "Rows as JSONL",
    # a sweep of one's own
    "sweep.title": "Run it yourself",
    "sweep.text": (
        "Here, within this page's limits, or by the command line, without any. One sweep runs at a "
        "time; others' runs go in between. Nothing of it is kept on the server."
    ),
    "sweep.dataset": "Prompts",
    "sweep.dataset.verses": "Bible verses, English–French",
    "sweep.dataset.tasks": "Six kinds of task",
    "sweep.dataset.uploaded": "{name}, {count} prompts",
    "sweep.upload": "Open a file of prompts",
    "sweep.upload.help": (
        "JSONL with “prompt” and perhaps “reference”, CSV or TSV with such columns, or a prompt a "
        "line; up to 2 MB."
    ),
    "sweep.limit": "Prompts taken",
    "sweep.limit.help": "So many of the set, chosen by the seed.",
    "sweep.methods": "Methods",
    "sweep.lengths": "Draft lengths γ",
    "sweep.budgets": "Budgets D, nats",
    "sweep.list.help": "Values with commas between them; empty for the default.",
    "sweep.rules": "Rules of speculative",
    "sweep.rules.help": "Judges of a draft; none is the exact rule.",
    "sweep.vary": "Also vary",
    "sweep.vary.help": "A line each: lenience=0.9,0.7",
    "sweep.draft_alone": "Draft alone, too",
    "sweep.work": (
        "{prompts} prompts × {configurations} configurations: up to {tokens} tokens of {limit}."
    ),
    "sweep.started": "Waiting for the models…",
    "sweep.progress": "{done} of {total} runs",
    "sweep.left": "about {seconds} left",
    "sweep.latest": "{prompt}: {label}, {tokens} tokens, {speed}",
    "sweep.done": "Done: {total} runs.",
    "sweep.stopped": "Stopped after {done} of {total} runs.",
    "sweep.late": "Time is up after {done} of {total} runs.",
    "sweep.partial": "Shown are the prompts that every configuration has done.",
}
