"""The words in Simplified Chinese of the lessons on length, cost and repetition."""

from __future__ import annotations

LENGTH: dict[str, str] = {
    # 4 length bias
    "length.text": (
        "搜索按对数概率之和给完整的文本排序。每个词元都加上一个负数，"
        "所以文本每长一个词元，总和就降低一些：直接比较总和，短文本占便宜。\n\n"
        "补救的办法是把总和除以一个随长度增大的数。`length`：除以 长度^α，transformers 即如此；"
        "`gnmt`：除以 ((5 + 长度) / 6)^α，出自谷歌的翻译系统；`none`：不除。"
    ),
    "length.ask": (
        "文本 A 有 5 个词元，每个概率 0.8；文本 B 有 10 个，每个 0.85。"
        "有人想让输出短一些，把 length_penalty 从 0 调到 2。这时哪个胜出？"
    ),
    "length.ask.short": "A，短的那个",
    "length.ask.long": "B，长的那个",
    "length.ask.none": "不分胜负：两者受到同样的惩罚",
    "length.ask.why": (
        "取 0 时比较的是总和，{short0} 对 {long0}，A 胜。取 2 时是 {short2} 对 {long2}，B 胜。"
        "得分是负数：除数越大，得分越接近 0，也就是越高。"
    ),
    "length.short": "A",
    "length.long": "B",
    "length.tokens": "文本 {name}：词元数",
    "length.prob": "文本 {name}：每个词元的概率",
    "length.norm": "归一化方式",
    "length.norm.length": "length",
    "length.norm.gnmt": "gnmt",
    "length.norm.none": "none",
    "length.penalty": "α，即 length_penalty",
    "length.penalty.help": "正值偏向长文本；0 为直接求和。",
    "length.reset": "恢复书中的两个文本",
    "length.wins.short": "A 得分 {short}，B 得分 {long}：**A 胜**。",
    "length.wins.long": "A 得分 {short}，B 得分 {long}：**B 胜**。",
    "length.wins.none": "两者都是 {short}：平局。",
    "length.flat": "不做归一化时，α 不起作用。",
    "length.never": "无论 α 取何值，两者的次序都不变。",
    "length.cross": "α = {where} 时两者得分相等：小于它 {below} 胜，大于它 {above} 胜。",
    "length.setting": "归一化与 α",
    "length.winner": "胜者",
    "length.tie": "平局",
    "length.caption": "表 9-6：书中的两个文本，五种设置",
    "length.caption.own": "表 9-6 的五种设置，你的两个文本",
    "length.name": "名不副实",
    "length.name.text": (
        "transformers 把 α 叫作 `length_penalty`（长度惩罚），但它并不惩罚长文本：得分是负数，"
        "所以**正值偏向更长的文本**。取 0 就是直接求和，偏向短文本；取负值则更偏向短文本。\n\n"
        "默认值 1.0 也不是中立的：它比较的是平均每个词元的对数概率，"
        "只要长文本的词元平均概率略高一点，无论多长，都会胜出。"
    ),
    "length.source.chapter": "教科书解码一章第 {section} 节，表 9-6",
    "length.source.docs": "transformers 文档：生成参数",
    # 5 what beams cost
    "cost.text": (
        "束宽为 W 的束搜索同时写 W 份文本，每份 t 个词元，前面是 P 个词元的提示。\n\n"
        "**计算量。** 提示只需通过模型一次，此后每条束的每个词元都要通过一次："
        "共 P + W·t 个词元，而单条束只有 P + t 个。\n\n"
        "**内存。** 缓存为每个词元在每一层保存一个键和一个值。若每条束各存一份提示，"
        "共 W·(P + t) 个词元；若所有束共用一份提示，至多 P + W·t 个。\n\n"
        "**等待。** 每一步只需为所有束读取一次权重，所以耗时不到单条束的 W 倍；"
        "但在各条束达成一致之前，没有任何词元可以当作定稿显示出来。"
    ),
    "cost.ask": (
        "{model}，提示 {prompt} 个词元，{width} 条束，{steps} 个新词元。共用提示能省下多少缓存？"
    ),
    "cost.ask.quarter": "约四分之一",
    "cost.ask.half": "约一半",
    "cost.ask.most": "约四分之三",
    "cost.ask.why": (
        "{saved}：只需 {shared} MiB，而不是 {naive} MiB。提示越长，节省的比例越接近 1 − 1/W，"
        "这里是 {limit}：提示只留一份，其余都省掉了。"
    ),
    "cost.model": "模型",
    "cost.width": "束宽 W",
    "cost.prompt": "提示长度 P",
    "cost.steps": "新词元数 t",
    "cost.token": "每个词元",
    "cost.token.tip": (
        "每一层、每个键值头各存一个键和一个值，每个数两字节：2 × {layers} × {heads} × {dim} × 2。"
    ),
    "cost.naive": "各存一份提示",
    "cost.naive.tip": "缓存中有 W·(P + t) 个词元。",
    "cost.shared": "共用提示",
    "cost.shared.tip": "缓存中有 P + W·t 个词元。",
    "cost.saved": "节省",
    "cost.saved.tip": "所有束共用一份提示所节省的内存比例。",
    "cost.positions": "计算的词元",
    "cost.positions.tip": "共有 P + W·t 个词元通过模型。",
    "cost.work": "计算量",
    "cost.work.tip": "相对于单条束：(P + W·t) / (P + t)。",
    "cost.caption": "同样的搜索用于其他模型（每个数 16 位）",
    "cost.head.model": "模型",
    "cost.head.shape": "层数 × 键值头 × 维数",
    "cost.head.token": "KiB/词元",
    "cost.head.naive": "各存一份，MiB",
    "cost.head.shared": "共用，MiB",
    "cost.measure": "实测",
    "cost.measure.text": (
        "让本页的对话模型按上面的 W、P、t 分别用一条束和 W 条束搜索"
        "（至多 {width} 条束、{prompt} 个提示词元、{steps} 个新词元），由缓存自己统计字节数。"
    ),
    "cost.measure.go": "测量",
    "cost.measuring": "正在测量，或在等待前面的请求……",
    "cost.stopped": "两次搜索尚未全部结束就已停止。",
    "cost.where": "刚刚在 {device} 上以 {precision} 测得。",
    "cost.took": "{width} 条束时，每个词元的耗时是单条束的 {ratio} 倍。",
    "cost.equal": "字节数与两个公式完全一致。",
    "cost.unequal": "字节数与公式不同：这种缓存按块增长。",
    "cost.measured": "{prompt} 个提示词元，每条束的缓存中有 {steps} 个新词元",
    "cost.head.width": "束数",
    "cost.head.ms": "毫秒/词元",
    "cost.head.kept": "缓存，MiB",
    "cost.head.formula_shared": "P + W·t，MiB",
    "cost.head.copied": "若各存一份，MiB",
    "cost.head.formula_naive": "W·(P + t)，MiB",
    "cost.stream": "为何不能流式输出",
    "cost.stream.text": (
        "搜索结束之前，领先的束随时可能被别的束超过，只有所有束共同的开头才是确定的。"
        "下面是对“{prompt}”的一次搜索的记录，共 {width} 条束："
        "走完 {count} 步中的 {step} 步，确定的词元只有 {certain} 个；"
        "有 {wrong} 步，当时最好的文本中含有后来被推翻的词元。"
        "采样或贪心则不同，每个词元一出现就是定稿。"
    ),
    "cost.source.chapter": "教科书解码一章第 {section} 节（Llama 3 8B：600 与 225 MiB）",
    # 7 likelihood repeats itself
    "repetition.text": (
        "既然语言模型知道哪些文本概率高，为什么不直接写概率最高的那个？因为它很乏味。"
        "遇到开放式的提示，追求最大似然的方法会陷入循环：贪心和束搜索一遍遍地写同一句话，"
        "而且每重复一遍，模型就认为它比上一遍更可能。人写的文本并非如此："
        "其中处处都有出人意料的词（Holtzman 等，2020）。"
    ),
    "repetition.ask": "贪心搜索一遍遍地写“{sentence}”。每重复一遍，这些词元的概率……",
    "repetition.ask.falls": "降低：模型已经说过了",
    "repetition.ask.same": "不变",
    "repetition.ask.rises": "升高",
    "repetition.ask.why": (
        "各遍词元的平均概率依次为：{laps}（%）。上文每多一遍，下一遍的概率就更高，所以循环停不下来。"
    ),
    "repetition.runs": "三种续写",
    "repetition.recorded": "在 {device} 上以 {precision} 录制。提示：“{prompt}”",
    "repetition.fresh": "刚刚在 {device} 上以 {precision} 解码。提示：“{prompt}”",
    "repetition.axis": "概率（{window} 个词元的平均）",
    "repetition.head.run": "运行",
    "repetition.head.share": "重复的 {n}-gram",
    "repetition.head.loop": "结尾的循环，词元 × 遍数",
    "repetition.head.probability": "平均概率",
    "repetition.head.logprob": "ln p/词元",
    "repetition.remedy": (
        "有底色的是前文已出现过的连续四个词元。采样很少陷入循环，但有时会抽到分布长尾中的词元，"
        "于是前言不搭后语。截去长尾（`top_p`，即核采样）可以两者兼顾；"
        "温度过低，循环又会回来。不妨一试："
    ),
    "repetition.prompt": "提示",
    "repetition.prompt.help": "原样续写，不套用对话模板。",
    "repetition.temperature": "采样温度",
    "repetition.top_p": "采样的 top p",
    "repetition.go": "解码",
    "repetition.progress": "{run}：{count} 个词元",
    "repetition.stopped": "尚未全部结束就已停止。",
    "repetition.source.chapter": "教科书解码一章第 {section} 节",
    "source.1904.09751": "最大似然为何陷入循环；核采样",
    "source.1908.04319": "重复 n-gram 的比例",
}
