// Keys: / searches, g and a letter goes to a page, j and k walk over rows, ? shows all of them.

let pending = false;

export function startKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const target = event.target;
    if (target.matches("input, textarea, select, [contenteditable]")) {
      if (event.key === "Escape") target.blur();
      return;
    }
    if (pending) { pending = false; if (goTo(event.key)) event.preventDefault(); return; }
    const action = ACTIONS[event.key];
    if (action) { event.preventDefault(); action(); }
  });
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) {
      if (!menu.contains(event.target)) menu.removeAttribute("open");
    }
  });
}

const ACTIONS = {
  "/": () => document.querySelector("[data-search]")?.focus(),
  "g": () => { pending = true; setTimeout(() => { pending = false; }, 1500); },
  "?": () => document.getElementById("keys")?.showModal(),
  "j": () => walk(1),
  "k": () => walk(-1),
  "p": () => document.dispatchEvent(new CustomEvent("mainspring:toggle-live")),
  "Escape": () => { for (const menu of document.querySelectorAll("details.menu[open]")) menu.removeAttribute("open"); },
};

function goTo(key) {
  const link = document.querySelector(`header nav a[data-key="${CSS.escape(key)}"]`);
  if (link) location.href = link.href;
  return Boolean(link);
}

function walk(step) {
  const rows = [...document.querySelectorAll("main tbody tr")].filter((row) => row.querySelector("a"));
  if (!rows.length) return;
  const now = rows.findIndex((row) => row.contains(document.activeElement));
  const next = rows[Math.min(rows.length - 1, Math.max(0, now + step))];
  next.querySelector("a").focus();
  next.scrollIntoView({ block: "nearest" });
}
