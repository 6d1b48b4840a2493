// The page itself: language, address, theme, links, downloads, keys. Runs once, before the app.
{
  const HUB = "https://huggingface.co";
  const TYPES = { csv: "text/csv", html: "text/html" };
  const component = document.querySelector("gradio-app[data-setup]"); // embedded in another page
  const path = location.pathname.replace(/\/$/, "");
  const here = path.endsWith("/zh") ? "zh" : "en";
  const base = here === "zh" ? path.slice(0, -3) : path;
  const asked = new URLSearchParams(component?.dataset.setup ?? location.search);
  let query = ""; // the whole setup as the server last wrote it, without the tab
  let first = null, written = [...asked.keys()].some((key) => !key.startsWith("__")), ran = false;

  // --- language ---------------------------------------------------------------------------------

  function remember(language) {
    try {
      if (language) localStorage.setItem("dp-language", language);
      return localStorage.getItem("dp-language");
    } catch {
      return null; // storage is closed to pages embedded in others
    }
  }

  const addressOf = (language, search) => `${base}/${language === "zh" ? "zh" : ""}${search}`;

  const wish = asked.get("lang") ?? (here === "zh" ? "zh" : remember() ?? navigator.language);
  const language = wish.startsWith("zh") ? "zh" : "en";
  if (language !== here && !component && !document.querySelector("gradio-app[src]")) {
    location.replace(addressOf(language, location.search));
  }
  document.documentElement.lang = here === "zh" ? "zh-CN" : "en";

  // --- address ----------------------------------------------------------------------------------

  /** The id of the tab that is chosen in a bar of tabs. */
  function chosen(bar) {
    const tab = document.querySelector(`#${bar} > .tab-wrapper [role=tab][aria-selected=true]`);
    return tab?.dataset.tabId;
  }

  /** The setup as search parameters, with the tab, its lesson or result, and `more`. */
  function search(more = {}) {
    const found = new URLSearchParams(query);
    for (const name of ["tab", "lesson", "result"]) found.delete(name);
    const tab = chosen("tabs");
    if (tab && tab !== "compare") found.set("tab", tab);
    if (tab === "learn") found.set("lesson", chosen("lessons"));
    const result = document.querySelector("[data-result]")?.dataset.result;
    if (tab === "frontier" && result) found.set("result", result);
    for (const [name, value] of Object.entries(more)) found.set(name, value);
    return `?${found}`;
  }

  function onHub() {
    const above = [location.ancestorOrigins?.[0], document.referrer];
    return parent !== window && above.some((origin) => origin?.startsWith(HUB));
  }

  /** Write the setup into the address bar; inside a Space also into its page's. */
  function write() {
    if (component || !query) return;
    const kept = [...new URLSearchParams(location.search)].filter(
      ([name]) => name.startsWith("__") || name === "embed",
    );
    const text = search(Object.fromEntries(kept));
    history.replaceState(history.state, "", location.pathname + text);
    if (onHub()) parent.postMessage({ queryString: search(), hash: "" }, HUB);
    written = true;
  }

  /** Where others find this setup: the Space's own page where this is one inside it. */
  function link() {
    const space = window.gradio_config?.space_id;
    const place = onHub() && space ? `${HUB}/spaces/${space}` : `${location.origin}${base}/`;
    return place + search();
  }

  // --- embedding --------------------------------------------------------------------------------

  function snippets() {
    const theme = document.body.classList.contains("dark") ? "dark" : "light";
    const place = `${location.origin}${base}/`;
    const own = { embed: "1", __theme: theme };
    const lesson = { lang: here, tab: "learn", lesson: chosen("lessons"), ...own };
    const panel = chosen("tabs") === "learn" ? `?${new URLSearchParams(lesson)}` : search(own);
    const version = window.gradio_config?.version ?? "";
    const quoted = (text) => text.replaceAll("&", "&amp;").replaceAll('"', "&quot;");
    const script = `https://gradio.s3-us-west-2.amazonaws.com/${version}/gradio.js`;
    return {
      iframe:
        `<iframe src="${quoted(place + panel)}" width="100%" height="900" ` +
        `style="border: 0" allow="clipboard-write"></iframe>`,
      component:
        `<script type="module" src="${script}"></` + `script>\n` +
        `<gradio-app src="${quoted(place)}" data-setup="${quoted(panel)}" ` +
        `theme_mode="${theme}"></gradio-app>`,
    };
  }

  function openEmbed() {
    const dialog = document.querySelector("#embed-dialog");
    for (const [name, text] of Object.entries(snippets())) {
      dialog.querySelector(`[data-snippet=${name}]`).value = text;
    }
    dialog.showModal();
  }

  // --- copying and saving -----------------------------------------------------------------------

  async function copy(text, button) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = dp.make("textarea"); // no clipboard without https, or inside a strict frame
      area.value = text;
      (button.closest("dialog") ?? document.body).append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    const before = button.textContent;
    if (before === button.dataset.done) return;
    button.textContent = button.dataset.done;
    setTimeout(() => (button.textContent = before), 1600);
  }

  function download(url, name) {
    const anchor = dp.make("a");
    anchor.href = url;
    anchor.download = name;
    anchor.click();
  }

  function save(text, kind) {
    if (!text) return;
    if (kind === "png" || kind === "svg") return void picture(text, kind);
    const type = TYPES[kind] ?? "application/json";
    const url = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
    download(url, `decoding-playground.${kind}`);
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  }

  /** A picture of the figure that `text` describes, drawn by the library that Gradio brings. */
  async function picture(text, format) {
    const { data, layout } = JSON.parse(text);
    const { width, height } = layout;
    const scale = format === "png" ? 2 : 1;
    const url = await Plotly.toImage({ data, layout }, { format, width, height, scale });
    download(url, `decoding-playground.${format}`);
  }

  // --- what the app calls -----------------------------------------------------------------------

  dp.page = {
    /** The search part of the address, or of the element that embeds the page. */
    search: () => component?.dataset.setup ?? location.search,

    /** The setup has changed. A page that nobody touched keeps its short address. */
    setup(text) {
      query = text;
      first ??= text;
      if (written || text !== first) write();
    },

    /** A link was opened; `run=1` runs it, once. */
    opened(text) {
      query = first = text;
      if (asked.get("run") === "1" && !ran) {
        ran = true;
        setTimeout(() => document.querySelector("#run")?.click(), 100);
      }
    },

    /** What is chosen on a tab has changed. */
    follow: () => setTimeout(write, 50),

    save,
  };

  // --- what a visitor does ----------------------------------------------------------------------

  const actions = {
    theme() {
      const dark = document.body.classList.toggle("dark");
      const now = new URLSearchParams(location.search);
      now.set("__theme", dark ? "dark" : "light");
      if (!component) history.replaceState(history.state, "", `${location.pathname}?${now}`);
    },
    link: (button) => copy(link(), button),
    embed: openEmbed,
    snippet: (button) => copy(button.previousElementSibling.value, button),
    close: (button) => button.closest("dialog").close(),
    editor(button) {
      const open = document.documentElement.classList.toggle("dp-editing");
      button.setAttribute("aria-expanded", String(open));
    },
    lesson(button) {
      const tab = document.querySelector(`#lessons [data-tab-id=${button.dataset.lesson}]`);
      tab.click();
      document.querySelector("#tabs").scrollIntoView();
      tab.focus({ preventScroll: true });
    },
  };

  document.addEventListener("click", (event) => {
    if (!(event.target instanceof Element)) return;
    const button = event.target.closest("[data-do]");
    if (button) actions[button.dataset.do](button);
    const other = event.target.closest("a[data-language]");
    if (other) {
      event.preventDefault();
      remember(other.dataset.language);
      location.assign(addressOf(other.dataset.language, search({ lang: other.dataset.language })));
    }
    if (event.target.closest("#tabs [role=tab]")) {
      setTimeout(() => {
        write();
        window.dispatchEvent(new Event("resize")); // a chart drawn while hidden has no size
      }, 50);
    }
  });

  // Ctrl/⌘+Enter runs and Esc stops, wherever the focus is.
  document.addEventListener("keydown", (event) => {
    const run = event.key === "Enter" && (event.ctrlKey || event.metaKey);
    if ((!run && event.key !== "Escape") || document.querySelector("dialog[open]")) return;
    if (run) event.preventDefault();
    document.querySelector(run ? "#run" : "#stop")?.click();
  }, true);

  if (asked.get("embed") === "1") document.documentElement.classList.add("dp-embed");
}
