"""The words in English of the lessons that show a shipped experiment: width, tasks."""

from __future__ import annotations

EXPERIMENTS: dict[str, str] = {
    "experiment.join": " ",
    "experiment.none": "This copy ships without the result of this experiment.",
    "experiment.provisional": "Provisional: measured over fewer prompts than planned.",
    "experiment.again": "Recorded; intervals: 95 % of 1,000 resamples. Run it yourself: {command}",
    # what figures say: the ids of `experiment_charts.WORDS`
    "answer.width": "beams W",
    "answer.exact": "exact",
    "answer.norm.none": "plain sum",
    "answer.norm.length": "sum / length",
    "answer.bleu": "BLEU",
    "answer.chrf": "chrF",
    "answer.mean_tokens": "tokens of the output",
    "answer.mean_logprob": "ln p of the output under the target",
    "answer.empty": "empty outputs, %",
    "answer.cut": "outputs cut off, %",
    "answer.misses": "proven optima missed, %",
    "answer.divergence": "loss: KL(target‖output) spent, nats a token",
    "answer.accepted_more": "gain: accepted, points more",
    "answer.gain": "gain: tokens a target pass, × speculative",
    "answer.per_nat": "points accepted per nat spent",
    # 6 wider is not better
    "width.text": (
        "Beam search looks for the text that the model finds most probable, and a wider beam "
        "finds more probable ones. If the model were right about what is a good translation, "
        "wider would be better.\n\n"
        "Here are {count} Bible verses, translated from English to French by the model of this "
        "project at widths from 1 to 32, and by **exact search**, which goes on until nothing "
        "more probable can exist, or its budget of partial texts is used up."
    ),
    "width.ask": "What does the model find most probable of all, for most of the verses?",
    "width.ask.good": "A good translation",
    "width.ask.short": "A translation that is much too short",
    "width.ask.empty": "Nothing: the empty text",
    "width.ask.why": (
        "Of exact search’s results {empty} are empty, and BLEU is {bleu}. An empty text pays for "
        "one token only, its end: ln p = {ended} on average. A whole translation pays for each of "
        "its tokens: {tokens} of them come to {whole}, even for the best that {width} beams find."
    ),
    "width.quantity": "Draw",
    "width.norm.why": (
        "Dashed: the same searches with the sum divided by the length, the default of most "
        "libraries. It hides the fault rather than mends it."
    ),
    "width.found.best": "With plain sums BLEU is highest at width {width}: **{bleu}**.",
    "width.found.falls": "At width {width} it is lower, by **{by}** [{low}, {high}].",
    "width.found.flat": (
        "At width {width} it is {by} lower, but the interval [{low}, {high}] holds 0: up to here, "
        "wider is no better, and not clearly worse."
    ),
    "width.found.widest": "That is the widest beam here: up to it, quality does not fall.",
    "width.found.exact": (
        "The end of the road, exact search, has BLEU **{bleu}**: {empty} of its outputs are empty."
    ),
    "width.found.score": (
        "The mean ln p goes from {first} at width 1 to {last} at width {width} and {exact} for "
        "exact search: the score improves to the end, the text does not."
    ),
    "width.caption": "By width",
    "width.head.search": "Search",
    "width.head.bleu": "BLEU [95 %]",
    "width.head.chrf": "chrF",
    "width.head.length": "Words / reference",
    "width.head.score": "ln p",
    "width.head.empty": "Empty",
    "width.head.cut": "Cut off",
    "width.head.misses": "Optimum missed",
    "width.row.beam": "{width}, {norm}",
    "width.row.exact": "exact, {proven} proven",
    "width.published": "Published figures beside ours",
    "width.head.finding": "Finding",
    "width.head.theirs": "Published",
    "width.head.ours": "Here",
    "width.finding.bleu": "BLEU of a narrow beam → of exact search",
    "width.finding.empty": "The empty text is the most probable one",
    "width.finding.misses": "A wide beam misses the most probable text",
    "width.finding.falls": "Quality falls past an optimum width",
    "width.at": "{value} (width {width})",
    "width.of": "{value} (width {width}, of those proven)",
    "width.falls.theirs": "in 8 language pairs",
    "width.falls.yes": "by {by} [{low}, {high}] from width {best} to {width}",
    "width.falls.open": "not clearly: {by} [{low}, {high}] from width {best} to {width}",
    "width.falls.no": "not up to width {width}",
    "width.why": "Why",
    "width.why.text": (
        "The model gives each next token a probability, and multiplies them. However sure it is of "
        "every token of a long text, the product falls with each, while a wrong early end costs "
        "once. Narrow beams are good because they never get to see the empty text’s score: its "
        "end token is pruned at the first step. **The search’s error hides the model’s error.**\n\n"
        "So a wider beam is not a better approximation of a good text. Its width is a setting of "
        "its own, to be chosen on held-out data, like the length norm (lesson 4)."
    ),
    "width.note.exact": (
        "Exact search without a length norm; where its budget ran out, the best text so far "
        "counts, and is not called proven. Optimum missed: among the verses with a proven one."
    ),
    "width.source.koehn": "Koehn & Knowles 2017: optimum widths of 8 language pairs",
    "width.source.stahlberg": "Stahlberg & Byrne 2019: exact search, WMT15 English-German",
    # 10 which tasks gain
    "tasks.text": (
        "Mentored decoding buys acceptance with divergence. Its article ends with a question: "
        "should tasks with **many valid answers** (translation, summary, reasoning) not gain more "
        "than narrow ones? Where much is right, a draft token is seldom wrong.\n\n"
        "Here are {count} prompts of six kinds, {each} a kind, on the chat pair of this page. "
        "Many valid answers: translation, summary, story. Few: short fact, arithmetic, code."
    ),
    "tasks.ask": (
        "With a budget of D = {budget} nats a token, which kinds will gain more accepted tokens?"
    ),
    "tasks.ask.broad": "Those with many valid answers",
    "tasks.ask.narrow": "Those with few valid answers",
    "tasks.ask.open": "No difference that {count} prompts can tell",
    "tasks.ask.why": "{found}",
    "tasks.quantity": "Draw",
    "tasks.budget": "Budget D, nats",
    "tasks.found.accepted_more.broad": (
        "At D = {budget}, kinds with many valid answers gain **{by}** points of acceptance more "
        "[{low}, {high}]: as the article expects."
    ),
    "tasks.found.accepted_more.narrow": (
        "At D = {budget}, kinds with few valid answers gain **{by}** points of acceptance more "
        "[{low}, {high}]: not what the article expects."
    ),
    "tasks.found.accepted_more.open": (
        "At D = {budget}, the difference between many and few valid answers, {by} points of "
        "acceptance [{low}, {high}], may be chance: **undecided**."
    ),
    "tasks.found.per_nat.broad": (
        "For each nat that they spend, kinds with many valid answers get {by} points more "
        "[{low}, {high}]."
    ),
    "tasks.found.per_nat.narrow": (
        "For each nat that they spend, kinds with few valid answers get {by} points more "
        "[{low}, {high}]."
    ),
    "tasks.found.per_nat.open": (
        "For each nat that is spent the difference, {by} points [{low}, {high}], may be chance."
    ),
    "tasks.found.most": (
        "Most gains **{most}** (+{high} points), least {least} ({low}). Spent are "
        "{spent_low} to {spent_high} nats a token, on average, of the {budget}."
    ),
    "tasks.found.right": "Right answers, exact → mentored: {parts}.",
    "tasks.found.right.part": "{task} {exact} → {mentored}",
    "tasks.found.comma": ", ",
    "tasks.caption": "D = {budget}: gain and loss by kind [95 %]",
    "tasks.head.kind": "Kind",
    "tasks.head.exact": "Accepted, D 0",
    "tasks.head.mentored": "Accepted",
    "tasks.head.more": "Points more",
    "tasks.head.gain": "Tokens a pass, ×",
    "tasks.head.spent": "KL spent",
    "tasks.head.logprob": "ln p a token, change",
    "tasks.head.surprisal": "Surprisal",
    "tasks.kind.translation": "translation",
    "tasks.kind.summary": "summary",
    "tasks.kind.story": "open story",
    "tasks.kind.fact": "short fact",
    "tasks.kind.arithmetic": "arithmetic",
    "tasks.kind.code": "code",
    "tasks.note": (
        "Surprisal: −ln p a token of the target’s own samples under its law at temperature 1, a "
        "measure of how open a task is. Points are percent of tested tokens. Contrasts count kinds "
        "alike and resample the prompts of each."
    ),
    "tasks.limits": "What this does not say",
    "tasks.limits.text": (
        "One target of 135 million weights, one draft, one temperature. The draft was trained on "
        "text that the target wrote, so it is nearer to it on some kinds than on others; and a "
        "target this small is itself unsure where only one answer is right. A strong target on "
        "reasoning, the article’s other guess, is not tested here."
    ),
    "tasks.source": "Tran-Thien 2023: mentored decoding, and the open question",
}
