// The search tree: a slider that reveals it step by step, and the path and numbers of a candidate
// under the pointer, the finger or the arrow keys. Listeners are on the document, so that a tree
// may come and go; text is only ever set as text.
(() => {
  const PREFIX = 70; // characters of a path's text that are shown
  const MARGIN = 70; // pixels between the step that the slider shows and the right edge
  const cache = new WeakMap();

  const parts = (tree) => {
    if (!cache.has(tree)) {
      const nodes = [...tree.querySelectorAll(".dp-node")];
      const steps = [...tree.querySelectorAll(".dp-tree-step")];
      const stepOf = new Map();
      steps.forEach((group, i) => group.querySelectorAll(".dp-node").forEach((n) => stepOf.set(n, i)));
      cache.set(tree, { nodes, steps, stepOf, path: [] });
    }
    return cache.get(tree);
  };

  const isShown = (node) => node.getClientRects().length > 0 && !node.closest(".dp-tree-later");

  const note = (tree, text, words) => {
    const [first, second] = tree.querySelectorAll(".dp-tree-note > span");
    first.textContent = text;
    second.textContent = words;
  };

  const stateOf = (node) =>
    ["finished", "kept", "pruned"].find((name) => node.classList.contains("dp-" + name));

  const select = (node) => {
    const tree = node.closest(".dp-tree");
    const found = parts(tree);
    if (found.path[0] === node) return;
    found.path.forEach((other) => other.classList.remove("dp-tree-on", "dp-tree-here"));
    found.path = [];
    for (let at = node; at; at = at.dataset.p === "" ? null : found.nodes[at.dataset.p]) {
      at.classList.add("dp-tree-on");
      found.path.push(at);
    }
    node.classList.add("dp-tree-here");
    const text = [...found.path].reverse().map((n) => n.dataset.t).join("");
    const values = {
      state: tree.dataset[stateOf(node)],
      step: found.path.length,
      sum: node.dataset.s,
      score: node.dataset.n,
    };
    const words = tree.dataset.tip.replace(/\{(\w+)\}/g, (whole, key) => values[key] ?? whole);
    note(tree, text.length > PREFIX ? "…" + text.slice(-PREFIX) : text, words);
  };

  const intoView = (node) => node.scrollIntoView({ block: "nearest", inline: "nearest" });

  const reveal = (tree, last) => {
    const { steps } = parts(tree);
    steps.forEach((group, i) => {
      group.classList.toggle("dp-tree-later", i >= last);
      group.classList.toggle("dp-tree-now", i === last - 1);
    });
    const words = steps[last - 1].dataset.at;
    tree.querySelector(".dp-tree-bar output").textContent = `${last} / ${steps.length}`;
    tree.querySelector(".dp-tree-bar input").setAttribute("aria-valuetext", words);
    note(tree, "", words);
    const region = tree.querySelector(".dp-tree-scroll");
    const column = steps[last - 1].querySelector(".dp-tree-no").getBoundingClientRect();
    region.scrollLeft += column.right + MARGIN - region.getBoundingClientRect().right;
  };

  // Where an arrow key leads from a node: to its parent, its best child, or along its step.
  const next = (tree, node, key) => {
    const { nodes, steps, stepOf } = parts(tree);
    if (!node) return nodes.find((n) => n.classList.contains("dp-tree-win")) ?? nodes[0];
    if (key === "ArrowLeft") return nodes[node.dataset.p];
    if (key === "ArrowRight") {
      const place = String(nodes.indexOf(node));
      const children = nodes.filter((n) => n.dataset.p === place && isShown(n));
      return children.find((n) => n.classList.contains("dp-tree-win")) ?? children[0];
    }
    const column = [...steps[stepOf.get(node)].querySelectorAll(".dp-node")].filter(isShown);
    return column[column.indexOf(node) + (key === "ArrowDown" ? 1 : -1)];
  };

  const onPoint = (event) => {
    const node = event.target.closest?.(".dp-tree .dp-node");
    if (node) select(node);
    const beam = event.target.closest?.(".dp-tree-beams button");
    if (!beam || beam.dataset.node === "") return;
    const end = parts(beam.closest(".dp-tree")).nodes[beam.dataset.node];
    select(end);
    if (event.type === "click") intoView(end);
  };

  for (const type of ["pointerover", "focusin", "click"]) document.addEventListener(type, onPoint);

  document.addEventListener("input", (event) => {
    const slider = event.target.closest?.(".dp-tree-bar input[type=range]");
    if (slider) reveal(slider.closest(".dp-tree"), Number(slider.value));
  });

  document.addEventListener("keydown", (event) => {
    const region = event.target.closest?.(".dp-tree-scroll");
    if (!region || !event.key.startsWith("Arrow") || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const tree = region.closest(".dp-tree");
    const found = next(tree, parts(tree).path[0], event.key);
    if (!found) return;
    select(found);
    intoView(found);
  });
})();
