"""The words in English of the lessons on speculative and mentored decoding."""

from __future__ import annotations

SPECULATION: dict[str, str] = {
    # lesson 8
    "speculative.lede": (
        "An assistant drafts, the writer checks several words at once. What comes out follows "
        "the writer’s own law exactly; only the wait is shorter."
    ),
    "speculative.story": "The writer and the assistant",
    "speculative.story.text": (
        "A slow writer (the target model) has a quick assistant (the draft model). The assistant "
        "drafts the next few words. The writer reads them all in one pass, which takes hardly "
        "longer than writing one word, and keeps them up to the first that fails the test. In "
        "its place comes a correction; if all pass, the writer adds one more word, the bonus. "
        "Then the assistant goes on from there.\n\n"
        "Below is a recorded run of this page’s models, round by round."
    ),
    "speculative.recorded": "Recorded run",
    "speculative.ask": (
        "The assistant writes ‘{token}’ with probability {draft}, the writer with only {target}. "
        "Drafted tokens are tested, and replaced where they fail. How often is the word that "
        "comes out ‘{token}’?"
    ),
    "speculative.ask.draft": "{draft}",
    "speculative.ask.middle": "{middle}",
    "speculative.ask.ratio": "{ratio}",
    "speculative.ask.target": "{target}",
    "speculative.ask.why": (
        "It is {target}, as often as the writer alone. A drafted ‘{token}’ passes with "
        "probability {target} / {draft} = {ratio}, and {ratio} of {draft} is {target}; "
        "corrections never give it, for the draft has too much of it already. So it is with "
        "every token, and that is why the output follows the writer’s law. Press Draw below to "
        "see it happen."
    ),
    "speculative.overlap": "What is accepted is the overlap",
    "speculative.overlap.text": (
        "A drafted token passes with probability `min(1, q/p)`: q is the writer’s law (the "
        "target), p the assistant’s (the draft). So of each token the common part, `min(p, q)`, "
        "is accepted. What the draft has too much is rejected, and the same amount is put back "
        "where it has too little: that is the residual, `max(0, q − p)`. Acceptance is the "
        "overlap of both laws, `Σ min(p, q) = 1 − TV(p, q)`, where `TV = ½ Σ |p − q|`."
    ),
    "speculative.start": "Start from",
    "speculative.start.sea": "‘The sea was …’",
    "speculative.start.sea.laws": ("calm 0.40 0.15\ngrey 0.30 0.10\ncold 0.20 0.15\nred 0.10 0.60"),
    "speculative.start.close": "A draft close to the target",
    "speculative.start.apart": "Laws without a common token",
    "speculative.start.apart.laws": "calm 0.60 0\ngrey 0.40 0\ncold 0 0.50\nred 0 0.50",
    "speculative.typed": "The two laws",
    "speculative.typed.help": (
        "A token a line: name, writer’s probability, assistant’s. Edit any of them."
    ),
    "speculative.better": "Move the draft towards the target, %",
    "speculative.accepted": "Accepted",
    "speculative.accepted.tip": "Σ min(p, q): what all bars have in both laws.",
    "speculative.distance": "TV distance",
    "speculative.distance.tip": "½ Σ |p − q|: what is rejected, and what is put back.",
    "speculative.together": "Together",
    "speculative.together.tip": "Σ min(p, q) + TV(p, q), always 1.",
    "speculative.proof": "Proof by drawing",
    "speculative.proof.text": (
        "Draw one token after another by the rule, each from a fresh draft, and compare their "
        "shares with the writer’s law. The distance of an exact rule falls as chance alone "
        "would, with 1/√n. That of a lossy rule stops at a floor: its own law is another one."
    ),
    "speculative.beside": "Beside it, a lossy rule",
    "speculative.count": "Tokens to draw",
    "speculative.draw": "Draw",
    "speculative.exact": "exact rule",
    "speculative.drawn.token": "token",
    "speculative.drawn.target": "writer q",
    "speculative.drawn.draft": "assistant p",
    "speculative.drawn.note": (
        "{count} tokens by each rule. Distance from the writer’s law: exact rule {distance} "
        "(chance alone leaves {chance} on average), {rule} {other}; its own floor is {floor}."
    ),
    "speculative.speed": "How much faster?",
    "speculative.speed.text": (
        "If each drafted token passes with probability α, a round with γ of them gives `(1 − "
        "α^(γ+1)) / (1 − α)` tokens, for the time of `γ·c + 1` passes of the target; c is a "
        "draft step over a target pass. Divide, and that is the speed-up. A longer draft helps "
        "until its last tokens are too rarely reached to be worth their c."
    ),
    "speculative.alpha": "α: acceptance",
    "speculative.gamma": "γ: drafted tokens a round",
    "speculative.cost": "c: draft step / target pass",
    "speculative.of": "Measured runs",
    "speculative.from": "Take α, γ and c from a run",
    "speculative.curve": "formula, α {alpha}, c {cost}",
    "speculative.per_round": "Tokens a round",
    "speculative.per_round.tip": "(1 − α^(γ+1)) / (1 − α), at most γ + 1.",
    "speculative.speedup": "Speed-up",
    "speculative.speedup.tip": "Tokens a round over γ·c + 1.",
    "speculative.best": "Best γ",
    "speculative.best.tip": "Of γ = 0 to {limit}; 0: do not draft.",
    "speculative.best_speedup": "Speed-up there",
    "speculative.best_speedup.tip": "The most that this draft can give by the formula.",
    "speculative.measured": (
        "Dots are measured runs of this page’s models ({precision}, {place}), each with an α and "
        "c of its own; most lie below what the formula makes of them. The formula lets a pass "
        "over γ + 1 tokens cost as much as a pass over one, which is nearly so for a large model "
        "on a GPU and less so here. It leaves out what happens between the passes. And its α is "
        "the same everywhere, while a real draft is good in some places and bad in others."
    ),
    "speculative.row.run": "measured run",
    "speculative.row.alpha": "α",
    "speculative.row.gamma": "γ",
    "speculative.row.cost": "c",
    "speculative.row.per_round": "tokens a round",
    "speculative.row.expected": "by formula",
    "speculative.row.speedup": "speed-up",
    "speculative.row.predicted": "by formula",
    # lesson 9
    "mentored.lede": (
        "A mentor lets a word stand that is nearly as good as their own. How many drafted tokens "
        "can be accepted, at most, if the output’s law may drift from the target’s by D and no "
        "more?"
    ),
    "mentored.problem": "The problem, and its solution",
    "mentored.problem.text": (
        "Choose for every token x the probability r(x) of accepting it when it was drafted, and "
        "the law that a rejected one is replaced from. Make the acceptance `R = Σ p·r` as large "
        "as possible, while the law π of what comes out keeps `KL(q‖π) = Σ q ln(q/π) ≤ D`. Here "
        "q is the target’s law, p the draft’s, and D is counted in nats.\n\n"
        "The optimum is `π = clamp(p, q/β, q/α)`: the draft’s own probability wherever it lies "
        "between two multiples of the target’s, else cut down to the ceiling q/α or lifted to "
        "the floor q/β. The mass cut off is the mass put back, 1 − R, which ties β to α; D sets "
        "α. At D = 0 both bounds are q, and this is speculative decoding. As D grows they move "
        "apart, until the draft fits between them."
    ),
    "mentored.ask": (
        "On the laws below, speculative decoding (D = 0) accepts {exact} of drafted tokens, and "
        "D = {whole} accepts them all. How many does D = {budget} accept, an eighth of the way?"
    ),
    "mentored.ask.less": "{less}",
    "mentored.ask.line": "{line}",
    "mentored.ask.most": "{accepted}",
    "mentored.ask.much": "{much}",
    "mentored.ask.why": (
        "It is {accepted}: {share} of all that can be gained, for an eighth of the divergence. "
        "In proportion it would be {line}. “Why the first nat is nearly free”, below, says why."
    ),
    "mentored.laws": "Laws",
    "mentored.laws.article": "One token overrated (the article’s figures)",
    "mentored.laws.bumps": "Two overlapping bumps",
    "mentored.laws.close": "A draft close to the target",
    "mentored.budget": "Budget D, nats",
    "mentored.bars.text": (
        "Move D and watch the third bar of each token leave the target’s height for the draft’s. "
        "The marks are the ceiling and the floor. Laws of your own, and other divergences: in "
        "the Token lab."
    ),
    "mentored.rules": "Acceptance against KL, for every rule",
    "mentored.rules.text": (
        "Each line is a rule along its own setting, on these laws. None lies above mentored "
        "decoding: it is the most that any rule can accept at that KL. Above, what each accepts; "
        "below, how many points it stays behind at the same KL. Settings at which a rule gives a "
        "token of the target no mass have no finite KL(q‖π) and are left out; so is block "
        "verification, which judges a draft as a whole and is exact. Where one token decides, as "
        "on the laws that the page begins with, the rules nearly coincide; on the two bumps they "
        "part."
    ),
    "mentored.rule": "rule",
    "mentored.behind": "most behind, points",
    "mentored.where": "at KL",
    "mentored.no_kl": "no finite KL on these laws",
    "mentored.free": "Why the first nat is nearly free",
    "mentored.free.text": (
        "KL has its lowest point at π = q and is flat there: to move a little mass ε costs in "
        "proportion to ε², not to ε. So acceptance starts to rise like √D, and every further nat "
        "buys less. And a budget is a limit, not a price: a drafted token that passes the exact "
        "test, `u < min(1, q/p)`, passes as it would have; D only rescues some of the others."
    ),
    "mentored.free.here": (
        "On these laws D = {budget}, of the {whole} that accept everything, brings {share} of "
        "all that can be gained: acceptance goes from {exact} to {accepted}."
    ),
    "mentored.gain.budget": "D, nats",
    "mentored.gain.accepted": "accepted",
    "mentored.gain.share": "of the possible gain",
    "mentored.gain.slope": "points per nat",
    "mentored.gain.note": "What a budget buys; points per nat count from the row above.",
    "mentored.gain.article": "article",
    "mentored.family": "Another divergence, the same family",
    "mentored.family.text": (
        "For every strictly convex f-divergence the optimum has the same form, `clamp(p, q/β, "
        "q/α)`; only how far a budget moves α differs. So one solver serves them all. Under "
        "total variation a budget buys its own amount of acceptance, `R = R₀ + D`: a straight "
        "line. Budgets are shown as a share of the smallest that accepts everything, so the "
        "lines compare shapes, not divergences."
    ),
}
