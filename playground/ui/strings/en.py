"""The words of the page in English, by id."""

from __future__ import annotations

from playground.ui.strings.en_experiments import EXPERIMENTS
from playground.ui.strings.en_frontier import FRONTIER
from playground.ui.strings.en_learn import LEARN
from playground.ui.strings.en_length import LENGTH
from playground.ui.strings.en_page import PAGE
from playground.ui.strings.en_speculation import SPECULATION

EN: dict[str, str] = {
    **PAGE,
    **FRONTIER,
    **LEARN,
    **EXPERIMENTS,
    **LENGTH,
    **SPECULATION,
    "card.idle": "Press Run.",
    "card.recorded": "recorded",
    "card.tokens": "{count} tokens",
    "card.spent": "{spent} of {budget}",
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
    "table.bleu": "BLEU",
    "table.chrf": "chrF",
    "metric.bleu.tip": "Agreement with the reference answer in words, 0 to 100, by sacrebleu.",
    "metric.chrf.tip": "Agreement with the reference answer in letters, 0 to 100, by sacrebleu.",
    "metric.logprob.tip": "Mean log-probability of the text under the target at temperature 1.",
    "unit.nats": "nats",
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
    "verdict.one": "One run alone: select another to compare it with.",
    "verdict.none": "No speculative run among these: nothing to judge.",
    "verdict.paid": "Speculation paid here",
    "verdict.even": "Speculation made no difference here",
    "verdict.lost": "Speculation lost here",
    "verdict.main": "{outcome}: {numbers}",
    "verdict.joint": "; ",
    "verdict.end": ".",
    "verdict.numbers": (
        "{speedup}×, at {accepted} accepted and a draft step costing {cost} of a target pass"
    ),
    "verdict.why": "a round gave {gain} tokens and took as long as {price} plain ones",
    "verdict.lossy": (
        "{label} reached {speedup}× at {accepted} accepted, for {spent} {unit} a token"
    ),
    # beam tree
    "tree.none": "This run kept no search steps: only beam searches have a tree.",
    "tree.label": "Search tree of {steps} steps, up to {width} beams",
    "tree.step": "Step",
    "tree.all": "More pruned candidates",
    "tree.prompt": "prompt",
    "tree.hint": (
        "Point at a candidate, or walk with the arrow keys: its text so far, its sum of "
        "log-probabilities, and its score after length normalisation."
    ),
    "tree.at": (
        "Step {step} of {count}: {live} beams live on, {finished} ended so far; best score {best}"
    ),
    "tree.tip": "{state} in step {step} · Σ ln p {sum} · length-normalised score {score}",
    "tree.wins": "path of the best beam (★ its end)",
    "tree.kept": "kept",
    "tree.finished": "ended",
    "tree.closed": "ended by itself",
    "tree.pruned": "pruned",
    "tree.open": "cut off",
    "tree.cut": "Only the first {count} steps are drawn.",
    "tree.beams": "Returned beams, best first",
    "tree.beam": "Σ ln p {sum} · {length} tokens · length-normalised score {score} · {end}",
    # token chips (tokens.py)
    "kind.accepted": "accepted",
    "kind.mentored": "accepted only because D > 0",
    "kind.lossy": "accepted only by this rule",
    "kind.residual": "correction",
    "kind.bonus": "bonus",
    "kind.plain": "drawn or searched",
    "kind.rejected": "rejected draft",
    "chips.label": "Tokens of the text; arrow keys walk through them",
    "chips.flag": "first difference",
    "chips.spaces": "Spaces",
    "chips.spaces.tip": "Show spaces and line ends",
    "chips.rejected": "Rejected",
    "chips.rejected.tip": "Show the draft tokens that were rejected",
    "chips.copy": "Copy",
    "chips.copy.tip": "Copy the text, exactly",
    "chips.copied": "Copied",
    "chips.others": "Candidates",
    "chip.target": "Target",
    "chip.draft": "Draft",
    "chip.rejected": "Rejected here",
    "chip.accept": "Acceptance",
    "chip.exact": "Exact rule’s acceptance",
    "chip.u": "Drawn u",
    "chip.spent": "KL spent",
    "chip.counted": "Counted by the budget",
    "chip.gap": "Gap of the two best logits",
    "difference.none": "Both texts are the same, token for token.",
    "difference.at": (
        "First differs at token {number}: ‘{first}’ ({name}) / ‘{second}’ ({other})."
    ),
    "difference.end": "⟨end of text⟩",
    "difference.mentored": "‘{token}’ was accepted only because D > 0.",
    "difference.tie": (
        "The target’s two best logits are {gap} apart here: such a near-tie can flip when a "
        "pass computes several tokens at once."
    ),
    "difference.apart": "The target’s two best logits are {gap} apart here: not a near-tie.",
    # round replay (rounds.py)
    "rounds.none": "No rounds to replay: nothing was drafted in this run.",
    "rounds.label": "Rounds",
    "rounds.hint": (
        "The coloured part of a bar is the probability with which a drafted token is accepted; the "
        "dark mark is u, drawn evenly from 0 to 100 %. A mark inside the colour accepts the token."
    ),
    "rounds.round": "Round",
    "rounds.previous": "Previous round",
    "rounds.next": "Next round",
    "rounds.play": "Play",
    "rounds.pause": "Pause",
    "rounds.text": "Text so far",
    "rounds.target": "target",
    "rounds.draft": "draft",
    "rounds.time": "Time",
    "rounds.draft_time": "draft {value} ms",
    "rounds.target_time": "target {value} ms",
    "rounds.totals": "So far",
    "rounds.sums": "{rate} tokens a target pass; accepted {accepted} of {tested} tested",
    "rounds.untested": "not tested",
    "rounds.accepted": "accepted",
    "rounds.rejected": "rejected",
    "rounds.below": "u {u} < {accept}: {verdict}",
    "rounds.above": "u {u} ≥ {accept}: {verdict}",
    "rounds.exact": "(exact rule: {value})",
    "rounds.whole": "acceptance {accept}: {verdict}, judged with the whole draft",
    "rounds.ended": "The text ends in this round.",
    "rounds.why.single": "Nothing was drafted; the target’s pass gives ‘{token}’.",
    "rounds.why.residual": (
        "Stopped at ‘{rejected}’: rejected, and replaced by ‘{token}’ from the residual law."
    ),
    "rounds.why.bonus": (
        "Every drafted token was accepted ({count}); the same target pass adds ‘{token}’."
    ),
    # token lab (lab.py, lab_figures.py, tabs/token_lab.py)
    "lab.intro": (
        "One step of mentored decoding. A law is a probability distribution over the next token: "
        "the draft model has one, p, and the target another, q. Move the budget D and see how much "
        "more of what the draft proposes is accepted, and what law comes out."
    ),
    "lab.source": "Laws",
    "lab.source.run": "From a run",
    "lab.source.own": "Your own",
    "lab.run": "Run",
    "lab.position": "Token",
    "lab.previous": "Previous token",
    "lab.next": "Next token",
    "lab.none": "No run to look into yet: press Run in Compare, open a trace, or type two laws.",
    "lab.preset": "Start from",
    "lab.preset.article": "The article’s example: KL(target‖draft) ≈ 1.58",
    "lab.preset.close": "A draft close to the target",
    "lab.preset.zeros": "A token that the target excludes",
    "lab.preset.greedy": "Temperature 0",
    "lab.typed": "Two laws",
    "lab.typed.help": "A token a line: name, target’s probability, draft’s probability.",
    "lab.budget": "Budget D",
    "lab.divergence": "Divergence",
    "lab.keep": "Keep the support",
    "lab.keep.help": "Never a token that the target excludes.",
    "divergence.kl": "KL(target‖output)",
    "divergence.reverse_kl": "KL(output‖target)",
    "divergence.js": "Jensen–Shannon",
    "divergence.hellinger": "squared Hellinger",
    "divergence.chi2": "χ²",
    "divergence.tv": "total variation",
    "lab.axis.kl": "budget D: KL(target‖output), nats",
    "lab.axis.reverse_kl": "budget D: KL(output‖target), nats",
    "lab.axis.js": "budget D: Jensen–Shannon, nats",
    "lab.axis.hellinger": "budget D: squared Hellinger",
    "lab.axis.chi2": "budget D: χ²",
    "lab.axis.tv": "budget D: total variation",
    "lab.target": "target q",
    "lab.draft": "draft p",
    "lab.output": "output π",
    "lab.output.lossless": "output π (speculative)",
    "lab.ceiling": "ceiling q/α",
    "lab.floor": "floor q/β",
    "lab.others": "{count} others",
    "lab.probability": "probability",
    "lab.accepted_share": "acceptance R, %",
    "lab.curve.mentored": "mentored",
    "lab.curve.speculative": "speculative",
    "lab.here": "these settings",
    "lab.draft_from": "π = p from here",
    "lab.best_from": "no more to gain",
    "lab.acceptance.label": "Acceptance R",
    "lab.acceptance.tip": "How likely a drafted token is accepted: Σ p·r.",
    "lab.exact.label": "Speculative",
    "lab.exact.tip": "Acceptance at D = 0: Σ min(p, q).",
    "lab.spent.label": "Spent of D",
    "lab.spent.tip": "Divergence of the output from the target; never more than D.",
    "lab.whole.label": "Useful up to",
    "lab.whole.tip": "The D beyond which acceptance no longer grows.",
    "lab.alpha.label": "α",
    "lab.alpha.tip": "A drafted token is accepted with probability min(1, q/(αp)).",
    "lab.beta.label": "β",
    "lab.beta.tip": "The residual is max(0, q/β − p), divided by 1 − R.",
    "lab.rejected.label": "Rejected 1 − R",
    "lab.rejected.tip": "How likely the residual replaces the drafted token.",
    "lab.drafted.label": "Drafted token",
    "lab.drafted.tip": "Acceptance of the token that the run drafted here, under these settings.",
    "lab.residual": "Residual, drawn from after a rejection: {tokens}.",
    "lab.residual.none": "Nothing is rejected, so the residual is never used.",
    "lab.same": "Both laws are the same: everything is accepted at no cost.",
    "lab.lossless": (
        "D = 0 is speculative decoding: the output is exactly the target’s law, and {accepted} of "
        "drafted tokens are accepted."
    ),
    "lab.is_draft": (
        "D ≥ {whole}: the output is the draft’s own law. Everything is accepted, and {spent} is "
        "spent."
    ),
    "lab.all": (
        "Every drafted token is accepted, up to rounding: the output is nearly the draft’s law, "
        "for {spent} of divergence."
    ),
    "lab.support": (
        "Acceptance ends at {accepted}: what remains are tokens that the target excludes, never "
        "accepted while the support is kept."
    ),
    "lab.between": (
        "{accepted} of drafted tokens are accepted instead of {exact}, for {spent} of divergence."
    ),
    "lab.merged": (
        "The other {count} tokens are merged into {groups} groups of about equal p/q: exact at "
        "D = 0, and acceptance within about 1 point above it."
    ),
    "lab.untested": "The target drew this token itself: no drafted token was tested here.",
    "lab.accepted": "Drafted ‘{token}’: accepted, judged with the whole draft.",
    "lab.rejected": "Drafted ‘{token}’: rejected, replaced by ‘{final}’.",
    "lab.accepted.u": "Drafted ‘{token}’, drawn u {u} < {accept}: accepted.",
    "lab.rejected.u": "Drafted ‘{token}’, drawn u {u} ≥ {accept}: rejected, replaced by ‘{final}’.",
    "lab.error.count": "Type from 1 to {limit} lines, a token each.",
    "lab.error.line": "Line {number}: ‘{line}’ is not a name and two probabilities.",
    "lab.error.number": "Line {number}: ‘{value}’ is not a number from 0 to 1.",
    "lab.error.sum": "The probabilities of {law} sum to {total}; they must sum to 1.",
    # charts.py: the ids of its WORDS
    "chart.tokens_per_s": "speed, tokens per second",
    "chart.speedup": "speed-up over the baseline, ×",
    "chart.tokens_per_target_pass": "new tokens per target pass",
    "chart.fidelity": "fidelity, %",
    "chart.mean_divergence": "KL spent, nats per token (lower is closer)",
    "chart.target_logprob": "ln p per token under the target",
    "chart.agreement": "agreement with greedy, %",
    "chart.bleu": "BLEU",
    "chart.chrf": "chrF",
    "chart.front": "Pareto front",
    "chart.predicted": "predicted at the measured draft cost",
    "chart.predicted_cheap": "predicted at draft cost 0.05",
    "chart.acceptance_rate": "accepted, %",
}
