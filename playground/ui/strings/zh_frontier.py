"""The words of the Frontier tab in Simplified Chinese."""

from __future__ import annotations

FRONTIER: dict[str, str] = {
    "tab.frontier": "前沿",
    "frontier.intro": (
        "让大量提示经过一组配置：提速要付出多少质量？虚线连接在两个轴上都无法被超越的"
        "配置。误差线是对提示重采样得到的 95 % 区间；点很多时，虚线之外的点指向时才显示区间。"
    ),
    "frontier.shown": "结果",
    "frontier.own": "自己的实验",
    "frontier.none": "此副本没有附带结果，可在下方自己运行一次实验。",
    "frontier.count": "{prompts} 条提示，{configurations} 种配置。",
    # shipped results
    "result.article": "论文的实验：圣经经文翻译",
    "result.article.note": (
        "用本项目的小模型对做英译法，温度 0.3：采样、推测解码、"
        "不同草稿长度 γ 与预算 D 的导师解码，以及单独的草稿模型。"
    ),
    "result.article-hub": "论文的实验：T5-large 与 T5-small",
    "result.article-hub.note": "WMT15 英译法，温度 0.3，与论文相同。",
    "result.lossy-translate": "全部有损规则：翻译",
    "result.lossy-translate.note": (
        "英译法，γ 5，每种规则逐个取不同的参数值：理论上的最优解在实践中也胜出吗？"
    ),
    "result.lossy-chat": "全部有损规则：对话",
    "result.lossy-chat.note": (
        "在对话模型对上，每种规则逐个取不同的参数值。这里没有参考文本，质量以对目标分布的保真度衡量。"
    ),
    "result.tasks": "哪些任务受益？",
    "result.tasks.note": ("在对话模型对上的六类任务。各类任务的收益见“学习”页的相应课程。"),
    "result.width": "束宽",
    "result.width.note": (
        "英译法，1 到 32 条束的束搜索，以及精确搜索；图见“学习”页中关于束宽的课程。"
    ),
    "result.own.note": "刚刚在本页运行。",
    # table
    "frontier.configuration": "配置",
    "frontier.draft_alone": "单独的草稿模型",
    "frontier.speed": "词元/秒",
    "frontier.speed.tip": "新词元总数除以总秒数，均对全部提示求和。",
    "frontier.faster": "快多少",
    "frontier.faster.tip": "与最快的精确配置在相同提示上的速度之比。",
    "frontier.accepted": "接受率",
    "frontier.accepted.tip": "被接受的草稿词元占被核对者的比例。",
    "frontier.per_pass": "词元/前向",
    "frontier.per_pass.tip": "目标模型每次前向得到的新词元数。",
    "frontier.spent": "所用 KL",
    "frontier.spent.tip": "被核对位置上 KL(目标‖输出) 的均值，单位纳特。",
    "frontier.fidelity": "保真度",
    "frontier.fidelity.tip": "exp(−KL(输出‖目标) 的均值)，对新词元平均。",
    "frontier.logprob": "ln p/词元",
    "frontier.logprob.tip": "文本在目标模型下每个词元的平均对数概率。",
    "frontier.bleu": "BLEU",
    "frontier.bleu.tip": "整个语料的 BLEU，由 sacrebleu 计算。",
    "frontier.bleu_change": "BLEU 差",
    "frontier.bleu_change.tip": "与最快的精确配置的 BLEU 之差（配对）。",
    "frontier.chrf": "chrF",
    "frontier.chrf.tip": "整个语料的 chrF，由 sacrebleu 计算。",
    "frontier.sentence_bleu": "句级 BLEU",
    "frontier.sentence_bleu.tip": "逐句 BLEU 的均值，与论文的做法相同。",
    # what beats what
    "frontier.paired": (
        "帕累托前沿上的配置，与最快的精确配置（{baseline}）在相同的 {prompts} 条提示上比较："
    ),
    "frontier.sentence": "{label}：{parts}。",
    "frontier.comma": "，",
    "frontier.faster.by": "速度为其 {value}",
    "frontier.slower.by": "较慢，速度为其 {value}",
    "frontier.lower": "{metric} 低 {value}",
    "frontier.higher": "{metric} 高 {value}",
    "frontier.unclear": "{metric} 无明显差别，{value}",
    "frontier.spends": "每个词元所用 KL 为 {value} 纳特",
    # findings
    "findings.provisional": "暂定结果：所用提示少于计划。",
    "claims.title": "论文的数字与我们的数字",
    "claims.text": (
        "Tran-Thien 2023：T5-large 配 T5-small，V100，WMT15；采样每秒 {sampling} 个词元"
        "（句级 BLEU {bleu}），推测解码最快 {exact}，导师解码最快 {mentored}。"
        "这里的模型、文本和机器都不同，因此只比较大小关系，不比较数值。"
    ),
    "claims.claim": "论断",
    "claims.article": "论文",
    "claims.ours": "我们 [95 %]",
    "claims.ordering": "大小关系一致？",
    "claims.agrees": "一致",
    "claims.differs": "不一致",
    "claims.open": "未定",
    "claims.speculative_gain": "推测解码与采样的速度之比",
    "claims.mentored_speedup": "导师解码与采样的速度之比",
    "claims.mentored_gain": "导师解码与推测解码的速度之比",
    "claims.bleu_change": "D {budget} 时导师解码与精确解码的句级 BLEU 之差",
    "claims.bleu_order": "D {budget} 与较小预算的句级 BLEU 之差",
    "verdicts.title": "理论上的最优解在实践中也胜出吗？",
    "verdicts.text": (
        "其他每种有损规则与导师解码的比较，综合该规则的各个参数值。散度：接受率相同时，"
        "该规则所用散度与导师解码所用散度之比，大于 1 即导师解码胜出。"
        "速度与词元/前向：散度相同时，导师解码与该规则之比。"
    ),
    "verdicts.rule": "规则",
    "verdicts.divergence": "散度",
    "verdicts.speed": "速度",
    "verdicts.passes": "词元/前向",
    "verdicts.winner": "所用较少者",
    "verdicts.of": "可比的参数值",
    "verdicts.mentored": "导师解码",
    "verdicts.rule.wins": "该规则",
    "verdicts.open": "未定",
    "verdicts.none": "–",
    "contrasts.title": "正确答案多，还是少？",
    "contrasts.text": (
        "翻译、摘要、故事三类的均值减去常识、算术、代码三类的均值。论文预期前三类受益更多。"
    ),
    "contrasts.budget": "D",
    "contrasts.measure": "收益",
    "contrasts.difference": "差 [95 %]",
    "contrasts.answer": "受益更多者",
    "contrasts.accepted_more": "接受率",
    "contrasts.gain": "词元/前向，×",
    "contrasts.per_nat": "每纳特换得的接受率",
    "contrasts.broad": "答案多的任务",
    "contrasts.narrow": "答案少的任务",
    # record
    "frontier.record": "实验记录",
    "frontier.command": "命令行",
    "fact.pair": "模型对",
    "fact.dataset": "提示来源",
    "fact.prompts": "提示数",
    "fact.precision": "精度",
    "fact.seed": "种子",
    "fact.started": "开始时间",
    "fact.device": "设备",
    "fact.processor": "处理器",
    "fact.cores": "核数",
    "fact.threads": "线程数",
    "fact.python": "Python",
    "fact.torch": "torch",
    "fact.transformers": "transformers",
    "fact.git_commit": "代码版本",
    "fact.settings": "共同设置",
    "fact.score": "{metric} 签名",
    # downloads
    "save.html": "图（HTML）",
    "save.table": "表格（CSV）",
    "save.result": "全部（JSON）",
    "save.rows": "逐行记录（JSONL）",
    # a sweep of one's own
    "sweep.title": "自己运行",
    "sweep.text": (
        "可在本页的限额内运行，也可用命令行不受限制地运行。同一时间只运行一个实验，"
        "其他访客的运行会穿插其中。服务器不保留任何内容。"
    ),
    "sweep.dataset": "提示集",
    "sweep.dataset.verses": "圣经经文，英法对照",
    "sweep.dataset.tasks": "六类任务",
    "sweep.dataset.uploaded": "{name}，{count} 条提示",
    "sweep.upload": "打开提示文件",
    "sweep.upload.help": (
        "JSONL（字段 prompt，可含 reference）、带同名列的 CSV 或 TSV，或每行一条提示；不超过 2 MB。"
    ),
    "sweep.limit": "提示条数",
    "sweep.limit.help": "从提示集中取这么多条，由种子决定取哪些。",
    "sweep.methods": "方法",
    "sweep.lengths": "草稿长度 γ",
    "sweep.budgets": "预算 D（纳特）",
    "sweep.list.help": "用逗号分隔多个值；留空则用默认值。",
    "sweep.rules": "推测解码的规则",
    "sweep.rules.help": "如何核对草稿；不选即为精确规则。",
    "sweep.vary": "其他变动的参数",
    "sweep.vary.help": "每行一个：lenience=0.9,0.7",
    "sweep.draft_alone": "加上单独的草稿模型",
    "sweep.work": (
        "{prompts} 条提示 × {configurations} 种配置：至多 {tokens} 个词元，上限 {limit}。"
    ),
    "sweep.started": "正在等待模型…",
    "sweep.progress": "已完成 {done}/{total} 次运行",
    "sweep.left": "约剩 {seconds}",
    "sweep.latest": "{prompt}：{label}，{tokens} 个词元，{speed}",
    "sweep.done": "完成：共 {total} 次运行。",
    "sweep.stopped": "已停止，完成了 {done}/{total} 次运行。",
    "sweep.late": "时间已到，完成了 {done}/{total} 次运行。",
    "sweep.partial": "以下只统计所有配置都已完成的提示。",
}
