"""The words in Simplified Chinese of the Learn tab and its first three lessons."""

from __future__ import annotations

LEARN: dict[str, str] = {
    "tab.learn": "学习",
    "learn.turns": "其他课",
    "learn.sources": "出处",
    "learn.join": "",  # between two sentences
    "learn.right": "正确。",
    "learn.wrong": "不对。",
    "lesson.tree": "贪心会输",
    "lesson.step": "束搜索的一步",
    "lesson.stopping": "何时停止",
    "lesson.length": "长度偏置",
    "lesson.cost": "束的代价",
    "lesson.width": "更宽未必更好",
    "lesson.repetition": "似然会重复自己",
    "lesson.speculative": "推测解码",
    "lesson.mentored": "导师解码",
    "lesson.tasks": "哪些任务受益？",
    "learn.chapter": "教科书解码一章，{section} 节",
    # 1 greedy can lose
    "lose.text": (
        "贪心解码每一步都取概率最高的词元。但一段文本的概率是各步概率的**乘积**，"
        "最好的第一步未必是最好文本的开头。\n\n"
        "束搜索不只保留一条，而是保留 W 条得分最高的部分序列，"
        "第一步排在第二的词元因此仍有机会胜出。"
        "下面这棵树里，一段文本有两个词元：先是 A、B 或 C，再是 x、y 或 z。"
    ),
    "lose.ask": "贪心从概率最高的 A 开始。束宽为 2 的束搜索会返回哪段文本？",
    "lose.ask.first": "Ax，与贪心相同",
    "lose.ask.second": "Bx",
    "lose.ask.other": "Ay",
    "lose.ask.why": (
        "贪心停在 Ax，0.5 × 0.4 = {greedy}。束里还留着 B，于是找到 0.4 × 0.9 = {beam}，"
        "概率是前者的 **{ratio} 倍**。"
    ),
    "lose.width": "束宽 W",
    "lose.search": "搜索",
    "lose.first": "第一个词元",
    "lose.after": "{name} 之后",
    "lose.reset": "恢复书中的数字",
    "lose.change": "改一改这些数字",
    "lose.change.text": (
        "每个分布之和必须为 1。书中没有给出 C 之后的分布，这里用我们自己的；"
        "它不影响书中的结论，因为经过 C 的路径概率不会超过 0.1。"
    ),
    "lose.nothing": "空",
    "lose.fault.sum": "{where}：三个概率之和为 {total}，必须等于 1。",
    "lose.fault.number": "{where}，{name}：{value} 不是 0 到 1 之间的数。",
    "lose.greedy": "贪心得到 **{name}**：{product} = {joint}。",
    "lose.beam": "束宽 {width} 得到 **{name}**：{product} = {joint}，{than}",
    "lose.same": "概率并不更高。",
    "lose.times": "概率是贪心的 {ratio} 倍。",
    "lose.best": "没有概率更高的文本了。",
    "lose.missed": "它错过了概率最高的 **{name}**：{product} = {joint}。",
    "lose.head.text": "文本",
    "lose.head.product": "各步",
    "lose.head.joint": "概率",
    "lose.head.logprob": "ln p",
    "lose.head.found": "由谁找到",
    "lose.mark.greedy": "贪心",
    "lose.mark.beam": "束搜索",
    "lose.mark.best": "全局最好",
    "lose.sign.greedy": "贪心",
    "lose.sign.beam": "束",
    "lose.sign.best": "★",
    "lose.key.greedy": "贪心",
    "lose.key.beam": "束搜索",
    "lose.key.best": "九条中最好",
    "lose.key.unseen": "已剪枝：不再看",
    "lose.figure": "两步的树。",
    "lose.figure.found": "贪心停在 {greedy}，束搜索停在 {beam}。",
    # 2 one beam step
    "step.text": (
        "束搜索手里有 W 条部分序列，每条占一行。每一步都是对张量的**四个动作**，"
        "张量的形状由 W 和词表大小 V 决定。\n\n"
        "下面在第 1 课的树（V = 3）上演示，再看一个小型对话模型的录制搜索（V = 49,152）："
        "除了大小，没有任何不同。"
    ),
    "step.ask": (
        "两条束：0 是 A，1 是 B；三个词元：x 为 0，y 为 1，z 为 2。"
        "六个总分中最大的在展平后的第 {flat} 位（从 0 数起）。它延续的是什么？"
    ),
    "step.ask.first": "A 后接 y",
    "step.ask.second": "B 后接 x",
    "step.ask.third": "B 后接 y",
    "step.ask.why": (
        "父束是 `{flat} // 3 = 1`，即 B；词元是 `{flat} % 3 = 0`，即 x。一个下标同时带着两者。"
    ),
    "step.source": "搜索",
    "step.source.tree": "树，V = 3",
    "step.source.real": "对话模型，V = 49,152",
    "step.number": "第几步",
    "step.move": "动作",
    "step.expand": "扩展",
    "step.score": "打分",
    "step.prune": "剪枝",
    "step.collect": "收集",
    "step.expand.text": (
        "模型一次前向给出 {width} 行、每行 {size} 个 logits；取 log-softmax，"
        "就是每条束之后每个词元的 **ln p**。"
    ),
    "step.score.text": ("把每行自己的得分加到它的 {size} 个延续上：概率相乘，就是对数相加。"),
    "step.prune.text": (
        "把所有总分排成一行，保留最大的几个。"
        "由位置 j 可还原父束 `j // {size}` 和词元 `j % {size}`。"
    ),
    "step.collect.text": ("已结束的放入完成集合，其余成为下一步的各行；缓存按父束的次序重排。"),
    "step.recorded": "所有延续中只录下了最好的十二个。",
    "step.head.beam": "束",
    "step.head.score": "得分",
    "step.head.logprobs": "各延续的 ln p",
    "step.head.totals": "得分 + ln p",
    "step.head.text": "文本",
    "step.head.flat": "j",
    "step.head.parent": "父束",
    "step.head.token": "词元",
    "step.head.logprob": "ln p",
    "step.head.total": "总分",
    "step.head.joint": "概率",
    "step.head.kept": "",
    "step.head.row": "下一步的行",
    "step.head.from": "父束",
    "step.ended": "结束",
    "step.kept": "保留",
    "step.pruned": "剪去",
    "step.finished": "完成",
    "step.copies": "第 {rows} 行有多个后继，需要复制。",
    "step.drops": "第 {rows} 行没有后继，被丢弃。",
    "step.each_once": "每行恰有一个后继：变的只可能是次序。",
    "step.cache": "缓存怎么办",
    "step.cache.text": (
        "各词元的键和值逐步留存。下一步的某行若延续了别的行，它的缓存也要跟着搬。"
        "提示对所有行都相同，所以我们的缓存只存**一份**。选一选下一步的每行延续哪一行。"
    ),
    "step.cache.parent": "下一步第 {row} 行延续",
    "step.cache.prompt": "提示，共用",
    "step.cache.before": "各行",
    "step.cache.after": "下一步的各行",
    "step.cache.figure": "下一步的各行依次延续第 {parents} 行。",
    "step.cache.reorder": "`reorder_cache([{parents}])`。",
    "step.cache.bytes": (
        "实存：{sum} = {tokens} 个词元，**{bytes} 字节**（键、值各 4 字节）。"
        "若每行各存一份提示：{naive_sum} = {naive_tokens} 个词元，{naive_bytes} 字节。"
    ),
    # 3 when to stop
    "stopping.text": (
        "束搜索一边收集已结束的文本，一边让其余的继续生长。这里的得分按长度取平均，"
        "更长的文本仍可能得分更高。那么，什么时候算够？\n\n"
        "Transformers 有三种回答，即 `early_stopping` 的三种模式。三者面对同一次搜索："
        "两条束，一种只有 a、b 和结束符的小语言，至多八个词元。"
    ),
    "stopping.ask": "哪种模式返回的文本最好？",
    "stopping.ask.true": "True：有两条完成就停",
    "stopping.ask.false": "False：最好的未完成束落后就停",
    "stopping.ask.never": '"never"：没有未完成束还能胜出才停',
    "stopping.ask.same": "三者一样",
    "stopping.ask.why": (
        "True 在 {true_step} 个词元后停止，最好得分 {true_best}；False 在 {false_step} 个后停止，"
        '{false_best}；"never" 在 {never_step} 个后停止，**{never_best}**。'
        "多等四步，找到了更好的文本。"
    ),
    "stopping.search": "运行搜索",
    "stopping.number": "已生成的词元数",
    "stopping.caption": ("{step} 个词元之后：2 条中已完成 {count} 条，最低 {worst}，最高 {best}"),
    "stopping.head.mode": "early_stopping",
    "stopping.head.bound": "最好未完成束的估分",
    "stopping.head.verdict": "于是",
    "stopping.stopped": "已在 {step} 个词元后停止",
    "stopping.few": "继续：完成的不足 {count} 条",
    "stopping.true": "停止：已完成两条",
    "stopping.beaten": "停止：不高于已完成的最低分",
    "stopping.hope": "继续：高于已完成的最低分",
    "stopping.bounds": (
        "**True** 不看得分。**False** 按当前长度给最好的未完成束估分：这只是启发式，"
        "它在 4 个词元后停止，而再走一步那条束又会领先。"
        '**"never"** 把对数概率之和除以可能达到的最大长度，'
        "任何延续都不会更高，因此绝不会停得过早。图中的 ✕ 标出各自的停止处。"
    ),
    "stopping.settled": "束搜索为什么不能流式输出",
    "stopping.settled.text": (
        "直到结束，目前最好的文本都可能被别的取代。只有所有未完成和已完成文本共同的开头才是**确定**的，"
        "才能作为最终结果显示。"
    ),
    "stopping.head.step": "已生成的词元数",
    "stopping.head.best": "目前最好",
    "stopping.head.agrees": "最终正确的",
    "stopping.head.certain": "确定的",
    "stopping.source.transformers": "transformers，GenerationConfig.early_stopping",
}
