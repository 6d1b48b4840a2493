"""The words in Simplified Chinese of the lessons that show a shipped experiment: width, tasks."""

from __future__ import annotations

EXPERIMENTS: dict[str, str] = {
    "experiment.join": "",
    "experiment.none": "这份代码没有附带这项实验的结果。",
    "experiment.provisional": "暂定结果：所用的提示少于计划数。",
    "experiment.again": "录制的结果；区间为 1,000 次重采样的 95% 区间。自己运行：{command}",
    # what figures say: the ids of `experiment_charts.WORDS`
    "answer.width": "束宽 W",
    "answer.exact": "精确搜索",
    "answer.norm.none": "直接求和",
    "answer.norm.length": "和 ÷ 长度",
    "answer.bleu": "BLEU",
    "answer.chrf": "chrF",
    "answer.mean_tokens": "输出的词元数",
    "answer.mean_logprob": "输出在目标模型下的 ln p",
    "answer.empty": "空输出，%",
    "answer.cut": "被截断的输出，%",
    "answer.misses": "错过已证明的最优解，%",
    "answer.divergence": "代价：每个词元所用的 KL(目标‖输出)，纳特",
    "answer.accepted_more": "收益：接受率提高，百分点",
    "answer.gain": "收益：每次目标前向的词元数，相对推测解码，×",
    "answer.per_nat": "每纳特换来的接受率，百分点",
    # 6 wider is not better
    "width.text": (
        "束搜索寻找模型认为概率最高的文本；束越宽，找到的文本概率越高。"
        "如果模型对“什么是好译文”的判断没有错，那么束越宽就越好。\n\n"
        "下面是 {count} 节《圣经》经文，由本项目的模型从英语译成法语，束宽从 1 到 32；"
        "此外还有**精确搜索**：一直搜到不可能存在概率更高的文本为止，或用完部分文本的预算为止。"
    ),
    "width.ask": "对大多数经文来说，模型认为概率最高的文本是什么？",
    "width.ask.good": "一句好译文",
    "width.ask.short": "一句短得多的译文",
    "width.ask.empty": "什么也没有：空文本",
    "width.ask.why": (
        "精确搜索的结果中有 {empty} 是空的，BLEU 为 {bleu}。空文本只为一个词元（结束符）付出代价，"
        "平均 ln p = {ended}；完整的译文要为每个词元付出代价，"
        "即使是 {width} 条束找到的最好译文，{tokens} 个词元合计也有 {whole}。"
    ),
    "width.quantity": "绘制",
    "width.norm.why": (
        "虚线：同样的搜索，但把总和除以长度，这是多数程序库的默认做法。它掩盖了问题，而没有解决问题。"
    ),
    "width.found.best": "直接求和时，BLEU 在束宽 {width} 处最高：**{bleu}**。",
    "width.found.falls": "束宽 {width} 时降低了 **{by}** [{low}, {high}]。",
    "width.found.flat": (
        "束宽 {width} 时低 {by}，但区间 [{low}, {high}] 包含 0："
        "到此为止，更宽并不更好，也不明显更差。"
    ),
    "width.found.widest": "这已是这里最宽的束：在此之前质量没有下降。",
    "width.found.exact": "走到尽头，精确搜索的 BLEU 为 **{bleu}**：输出中有 {empty} 是空的。",
    "width.found.score": (
        "平均 ln p 从束宽 1 的 {first} 变为束宽 {width} 的 {last}，精确搜索为 {exact}："
        "得分一路提高，译文却没有。"
    ),
    "width.caption": "按束宽",
    "width.head.search": "搜索",
    "width.head.bleu": "BLEU [95%]",
    "width.head.chrf": "chrF",
    "width.head.length": "词数 / 参考译文",
    "width.head.score": "ln p",
    "width.head.empty": "空",
    "width.head.cut": "截断",
    "width.head.misses": "错过最优解",
    "width.row.beam": "{width}，{norm}",
    "width.row.exact": "精确搜索，{proven} 已证明",
    "width.published": "已发表的数字与本页的数字",
    "width.head.finding": "发现",
    "width.head.theirs": "已发表",
    "width.head.ours": "本页",
    "width.finding.bleu": "窄束的 BLEU → 精确搜索的 BLEU",
    "width.finding.empty": "概率最高的是空文本",
    "width.finding.misses": "宽束错过概率最高的文本",
    "width.finding.falls": "超过最佳束宽后质量下降",
    "width.at": "{value}（束宽 {width}）",
    "width.of": "{value}（束宽 {width}，仅计已证明者）",
    "width.falls.theirs": "8 个语言对",
    "width.falls.yes": "束宽从 {best} 到 {width} 降低 {by} [{low}, {high}]",
    "width.falls.open": "不明显：束宽从 {best} 到 {width} 降低 {by} [{low}, {high}]",
    "width.falls.no": "直到束宽 {width} 都没有下降",
    "width.why": "为什么",
    "width.why.text": (
        "模型给每个后续词元一个概率，再把它们相乘。长文本的每个词元不论多有把握，"
        "乘积都会逐个变小；而过早结束只付一次代价。窄束之所以好，是因为它根本看不到空文本的得分："
        "结束符在第一步就被剪掉了。**搜索的错误掩盖了模型的错误。**\n\n"
        "所以束更宽并不意味着更接近好译文；束宽本身就是一个要在留出数据上选择的设置，"
        "长度归一化也是如此（第 4 课）。"
    ),
    "width.note.exact": (
        "精确搜索不做长度归一化；预算用完时取当时最好的文本，且不算作已证明。"
        "“错过最优解”只统计已证明最优解的经文。"
    ),
    "width.source.koehn": "Koehn & Knowles 2017：8 个语言对的最佳束宽",
    "width.source.stahlberg": "Stahlberg & Byrne 2019：精确搜索，WMT15 英德",
    # 10 which tasks gain
    "tasks.text": (
        "导师解码用散度换取接受率。原文最后提出一个问题：**有许多正确答案**的任务"
        "（翻译、摘要、推理）是否应当比答案单一的任务获益更多？"
        "正确的写法越多，草稿词元就越少出错。\n\n"
        "下面是 {count} 条提示，分六类，每类 {each} 条，由本页的对话模型对完成。"
        "答案多的：翻译、摘要、故事；答案少的：简短事实、算术、代码。"
    ),
    "tasks.ask": "预算为每个词元 D = {budget} 纳特时，哪些任务多接受的词元更多？",
    "tasks.ask.broad": "正确答案多的任务",
    "tasks.ask.narrow": "正确答案少的任务",
    "tasks.ask.open": "{count} 条提示看不出差别",
    "tasks.ask.why": "{found}",
    "tasks.quantity": "绘制",
    "tasks.budget": "预算 D，纳特",
    "tasks.found.accepted_more.broad": (
        "D = {budget} 时，答案多的任务接受率多提高 **{by}** 个百分点 [{low}, {high}]，"
        "与原文的预期一致。"
    ),
    "tasks.found.accepted_more.narrow": (
        "D = {budget} 时，答案少的任务接受率多提高 **{by}** 个百分点 [{low}, {high}]，"
        "与原文的预期不符。"
    ),
    "tasks.found.accepted_more.open": (
        "D = {budget} 时，两类任务的接受率相差 {by} 个百分点 [{low}, {high}]，"
        "可能只是偶然：**尚无定论**。"
    ),
    "tasks.found.per_nat.broad": (
        "就每纳特散度换来的接受率而言，答案多的任务高 {by} 个百分点 [{low}, {high}]。"
    ),
    "tasks.found.per_nat.narrow": (
        "就每纳特散度换来的接受率而言，答案少的任务高 {by} 个百分点 [{low}, {high}]。"
    ),
    "tasks.found.per_nat.open": (
        "就每纳特散度换来的接受率而言，相差 {by} 个百分点 [{low}, {high}]，可能只是偶然。"
    ),
    "tasks.found.most": (
        "获益最多的是**{most}**（+{high} 个百分点），最少的是{least}（{low}）。"
        "{budget} 纳特的预算，平均每个词元实际用了 {spent_low} 到 {spent_high}。"
    ),
    "tasks.found.right": "答对的比例，精确 → 导师解码：{parts}。",
    "tasks.found.right.part": "{task} {exact} → {mentored}",
    "tasks.found.comma": "，",
    "tasks.caption": "D = {budget}：各类任务的收益与代价 [95%]",
    "tasks.head.kind": "任务",
    "tasks.head.exact": "接受率，D 0",
    "tasks.head.mentored": "接受率",
    "tasks.head.more": "提高，百分点",
    "tasks.head.gain": "每次前向的词元数，×",
    "tasks.head.spent": "所用 KL",
    "tasks.head.logprob": "每词元 ln p 的变化",
    "tasks.head.surprisal": "惊异度",
    "tasks.kind.translation": "翻译",
    "tasks.kind.summary": "摘要",
    "tasks.kind.story": "故事",
    "tasks.kind.fact": "简短事实",
    "tasks.kind.arithmetic": "算术",
    "tasks.kind.code": "代码",
    "tasks.note": (
        "惊异度：目标模型自己采样的文本在其温度 1 的分布下每个词元的 −ln p，反映任务有多开放。"
        "百分点以核对过的草稿词元计。对比时各类任务权重相同，并在类内对提示重采样。"
    ),
    "tasks.limits": "这些结果不能说明什么",
    "tasks.limits.text": (
        "只有一个 1.35 亿参数的目标模型、一个草稿模型、一个温度。"
        "草稿模型是用目标模型自己写的文本训练的，因此在某些任务上与它更接近；而这么小的目标模型，即使答案唯一，自己也没有把握。"
        "原文的另一个猜想（强目标模型做推理）这里没有检验。"
    ),
    "tasks.source": "Tran-Thien 2023：导师解码及这个未解的问题",
}
