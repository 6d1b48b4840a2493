"""The words in Simplified Chinese of the lessons on speculative and mentored decoding."""

from __future__ import annotations

SPECULATION: dict[str, str] = {
    # lesson 8
    "speculative.lede": (
        "助手写草稿，作家一次核对几个词。最终文本的分布与作家独自写作时完全相同，只是等待的时间更"
        "短。"
    ),
    "speculative.story": "作家与助手",
    "speculative.story.text": (
        "作家（目标模型）写得慢，他的助手（草稿模型）写得快。助手先起草接下来的几个词；作家用一次"
        "前向计算全部读完，所花的时间与自己写一个词相差无几，然后从头逐个检验，直到第一个没有通过"
        "的词为止。没有通过的词由修正词代替；如果全部通过，作家再多写一个词，即奖励词元。助手再从"
        "那里接着写。\n\n"
        "下面逐轮回放一次录制的运行，用的是本页的模型。"
    ),
    "speculative.recorded": "录制的运行",
    "speculative.ask": (
        "助手写“{token}”的概率是 {draft}，作家只有 {target}。草稿词元要经过检验，没有通过的会被替"
        "换。最终写出“{token}”的概率是多少？"
    ),
    "speculative.ask.draft": "{draft}",
    "speculative.ask.middle": "{middle}",
    "speculative.ask.ratio": "{ratio}",
    "speculative.ask.target": "{target}",
    "speculative.ask.why": (
        "是 {target}，与作家独自写作时一样。草稿中的“{token}”以 {target} / {draft} = {ratio} 的概"
        "率通过，而 {draft} 的 {ratio} 正是 {target}；修正时绝不会写出它，因为草稿给它的概率本来"
        "就太高。每个词元都是如此，所以输出服从作家的分布。点下面的“抽样”可以亲眼看到。"
    ),
    "speculative.overlap": "接受的正是重叠部分",
    "speculative.overlap.text": (
        "草稿词元以 `min(1, q/p)` 的概率通过，其中 q 是作家（目标）的分布，p 是助手（草稿）的分"
        "布。因此每个词元被接受的是两者共有的部分 `min(p, q)`。草稿多出的部分被拒绝，同样多的概率"
        "补到草稿不足的地方，这就是残差 `max(0, q − p)`。接受率等于两个分布的重叠："
        "`Σ min(p, q) = 1 − TV(p, q)`，其中 `TV = ½ Σ |p − q|` 是全变差距离。"
    ),
    "speculative.start": "示例",
    "speculative.start.sea": "“大海……”",
    "speculative.start.sea.laws": "平静 0.40 0.15\n灰暗 0.30 0.10\n寒冷 0.20 0.15\n鲜红 0.10 0.60",
    "speculative.start.close": "草稿接近目标",
    "speculative.start.apart": "没有共同词元的两个分布",
    "speculative.start.apart.laws": "平静 0.60 0\n灰暗 0.40 0\n寒冷 0 0.50\n鲜红 0 0.50",
    "speculative.typed": "两个分布",
    "speculative.typed.help": "每行一个词元：名称、作家的概率、助手的概率。均可修改。",
    "speculative.better": "让草稿向目标靠拢，%",
    "speculative.accepted": "接受率",
    "speculative.accepted.tip": "Σ min(p, q)：所有条形中两者共有的部分。",
    "speculative.distance": "TV 距离",
    "speculative.distance.tip": "½ Σ |p − q|：被拒绝的概率，也是补回的概率。",
    "speculative.together": "两者之和",
    "speculative.together.tip": "Σ min(p, q) + TV(p, q)，恒等于 1。",
    "speculative.proof": "用抽样来验证",
    "speculative.proof.text": (
        "按规则一个接一个地抽取词元，每次都重新起草，再把各词元出现的频率与作家的分布相比。精确规"
        "则的距离不断缩小，与纯粹的随机误差一样按 1/√n 下降；有损规则的距离降到某个下限就停住，因"
        "为它的输出本来就是另一个分布。"
    ),
    "speculative.beside": "对照的有损规则",
    "speculative.count": "抽取的词元数",
    "speculative.draw": "抽样",
    "speculative.exact": "精确规则",
    "speculative.drawn.token": "词元",
    "speculative.drawn.target": "作家 q",
    "speculative.drawn.draft": "助手 p",
    "speculative.drawn.note": (
        "两种规则各抽取 {count} 个词元。与作家分布的距离：精确规则 {distance}（仅由随机造成的距离"
        "平均为 {chance}），{rule} {other}，其自身的下限为 {floor}。"
    ),
    "speculative.speed": "能快多少？",
    "speculative.speed.text": (
        "设每个草稿词元通过的概率为 α。起草 γ 个词元的一轮平均产生 `(1 − α^(γ+1)) / (1 − α)` 个词"
        "元，耗时相当于目标模型的 `γ·c + 1` 次前向计算，c 是起草一步与目标模型一次前向的耗时之"
        "比。两者相除就是加速比。草稿加长有好处，直到最末几个词元很少轮得到检验、不值它们的 c 为"
        "止。"
    ),
    "speculative.alpha": "α：接受率",
    "speculative.gamma": "γ：每轮草稿词元数",
    "speculative.cost": "c：起草一步 / 目标模型一次前向",
    "speculative.of": "实测的运行",
    "speculative.from": "取某次运行的 α、γ、c",
    "speculative.curve": "公式，α {alpha}，c {cost}",
    "speculative.per_round": "每轮词元数",
    "speculative.per_round.tip": "(1 − α^(γ+1)) / (1 − α)，至多 γ + 1。",
    "speculative.speedup": "加速比",
    "speculative.speedup.tip": "每轮词元数除以 γ·c + 1。",
    "speculative.best": "最佳 γ",
    "speculative.best.tip": "在 γ = 0 到 {limit} 之中；0 表示不用草稿。",
    "speculative.best_speedup": "最佳加速比",
    "speculative.best_speedup.tip": "按公式，这个草稿最多能带来的加速。",
    "speculative.measured": (
        "圆点是本页模型的实测运行（{precision}，{place}），α 和 c 各不相同，大多低于公式给出的"
        "值。公式假定一次核对 γ + 1 个词元与只算一个词元同样快：大模型在 GPU 上差不多如此，在这里"
        "则不然。公式也不计两次前向计算之间的开销。此外，公式中的 α 处处相同，而真实的草稿有的地"
        "方好、有的地方差。"
    ),
    "speculative.row.run": "实测的运行",
    "speculative.row.alpha": "α",
    "speculative.row.gamma": "γ",
    "speculative.row.cost": "c",
    "speculative.row.per_round": "每轮词元数",
    "speculative.row.expected": "按公式",
    "speculative.row.speedup": "加速比",
    "speculative.row.predicted": "按公式",
    # lesson 9
    "mentored.lede": (
        "导师看到与自己的用词相差不远的词，就不去改动。如果允许输出分布最多偏离目标分布 D，草稿词"
        "元最多能接受多少？"
    ),
    "mentored.problem": "问题及其解",
    "mentored.problem.text": (
        "为每个词元 x 选定它作为草稿时被接受的概率 r(x)，并选定拒绝之后用来重新抽取的分布，使接受"
        "率 `R = Σ p·r` 尽可能大，同时输出的分布 π 满足 `KL(q‖π) = Σ q ln(q/π) ≤ D`。这里 q 是目"
        "标分布，p 是草稿分布，D 以纳特计。\n\n"
        "最优解是 `π = clamp(p, q/β, q/α)`：草稿的概率如果落在目标概率的两个倍数之间，就原样保"
        "留；高于上界 q/α 就削到上界，低于下界 q/β 就抬到下界。削去的概率等于补上的概率，都是 1 "
        "− R，由此 α 决定 β，而 α 由 D 决定。D = 0 时两个界都是 q，这就是推测解码。D 越大，两个界"
        "离得越开，直到草稿分布完全落在其间。"
    ),
    "mentored.ask": (
        "对下面的两个分布，推测解码（D = 0）接受 {exact} 的草稿词元，D = {whole} 时全部接受。D = "
        "{budget} 只是它的八分之一，能接受多少？"
    ),
    "mentored.ask.less": "{less}",
    "mentored.ask.line": "{line}",
    "mentored.ask.most": "{accepted}",
    "mentored.ask.much": "{much}",
    "mentored.ask.why": (
        "是 {accepted}：用八分之一的散度，得到全部可得增益的 {share}。按比例只有 {line}。原因见下"
        "面的“为什么第一个纳特几乎是白得的”。"
    ),
    "mentored.laws": "分布",
    "mentored.laws.article": "高估一个词元（原文的数值）",
    "mentored.laws.bumps": "两个部分重叠的峰",
    "mentored.laws.close": "草稿接近目标",
    "mentored.budget": "预算 D，纳特",
    "mentored.bars.text": (
        "拖动 D，看每个词元的第三根条形怎样从目标的高度移向草稿的高度；标记是上界和下界。想用自己"
        "的分布或其他散度，请到“词元实验室”。"
    ),
    "mentored.rules": "所有规则：接受率与 KL",
    "mentored.rules.text": (
        "每条线是一个规则随自身参数变化的轨迹，用的都是这两个分布。没有一条高于导师解码：在同样"
        "的 KL 下，任何规则都不可能接受得更多。上图是各规则的接受率，下图是在同样的 KL 下比导师解"
        "码少接受多少个百分点。如果某个参数值使目标分布中的某个词元得不到概率，KL(q‖π) 就是无穷"
        "大，不在图中；整块核对把草稿作为整体判断，而且是精确的，也不在图中。对本课开头的两个分"
        "布，胜负取决于一个词元，各规则几乎重合；换成两个峰，就能看出差别。"
    ),
    "mentored.rule": "规则",
    "mentored.behind": "最多落后，百分点",
    "mentored.where": "此时的 KL",
    "mentored.no_kl": "对这两个分布，KL 均为无穷大",
    "mentored.free": "为什么第一个纳特几乎是白得的",
    "mentored.free.text": (
        "KL 在 π = q 处取最小值，那里是平的：移动少量概率 ε，代价与 ε² 成正比，而不是与 ε 成正"
        "比。所以接受率起初像 √D 那样上升，之后每多一个纳特，换来的越来越少。而且预算是上限，不是"
        "价格：通过精确检验 `u < min(1, q/p)` 的草稿词元照样通过，D 只是挽回其余词元中的一部分。"
    ),
    "mentored.free.here": (
        "对这两个分布，全部接受需要 {whole}，而 D = {budget} 就能得到全部可得增益的 {share}：接受"
        "率由 {exact} 升到 {accepted}。"
    ),
    "mentored.gain.budget": "D，纳特",
    "mentored.gain.accepted": "接受率",
    "mentored.gain.share": "占可得增益",
    "mentored.gain.slope": "百分点/纳特",
    "mentored.gain.note": "预算换来的接受率；“百分点/纳特”从上一行算起。",
    "mentored.gain.article": "原文",
    "mentored.family": "换一种散度，还是同一族解",
    "mentored.family.text": (
        "对任何严格凸的 f-散度，最优解都是同样的形式 `clamp(p, q/β, q/α)`，只是同样的预算使 α 移"
        "动的多少不同，所以一个求解器就够了。对全变差，预算换来等量的接受率 `R = R₀ + D`，因而是"
        "一条直线。横轴是预算占“全部接受所需最小预算”的比例，所以比较的是曲线的形状，而不是各种散"
        "度的大小。"
    ),
}
