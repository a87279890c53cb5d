// Live updates: one stream says that something has changed, and the page asks for itself again. Only the elements
// marked data-live are replaced, and never one that the user is busy with. Hidden and stopped pages ask for nothing.
import { prepare } from "./prepare.js";

const LONGEST_REST = 15_000;
const RETRY = 5_000;
const REFUSED_RETRY = 30_000;

let stream = null;
let pace = 2000;
let stopped = false;
let asked = Date.now();
let heard = false;
let waiting = null;
let etag = null;
let failures = 0;
let reopening = null;
let polling = false;

export function startLive() {
  if (!document.body.dataset.liveStream || !document.querySelector("[data-live]")) return;
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  window.addEventListener("online", open);
  document.addEventListener("mainspring:toggle-live", toggle);
  document.addEventListener("mainspring:refresh", () => plan(0));
  if (!document.hidden) open();
}

function toggle() {
  stopped = !stopped;
  if (stopped) { close(); show("stopped", "Updates stopped (p)"); } else open();
}

function open() {
  if (stopped || document.hidden) return;
  close();
  stream = new EventSource(document.body.dataset.liveStream);
  const hear = (event) => {
    pace = JSON.parse(event.data).pace * 1000;
    failures = 0;
    polling = false;
    heard = true;
    show("on", "Live");
    plan(Math.max(0, asked + pace - Date.now()));
  };
  stream.addEventListener("hello", hear);
  stream.addEventListener("changed", hear);
  stream.addEventListener("bye", () => location.reload());
  stream.addEventListener("error", () => {
    if (stream?.readyState === EventSource.CLOSED) return poll();
    show("off", "Disconnected, trying again");
    plan(RETRY);
  });
}

// The server answered, but refused the stream: there are too many. The page updates itself at intervals instead, and tries again later.
function poll() {
  stream = null;
  polling = true;
  reopening = setTimeout(open, REFUSED_RETRY);
  plan(0);
}

function close() {
  stream?.close();
  stream = null;
  clearTimeout(reopening);
  clearTimeout(waiting);
  waiting = null;
}

function plan(delay) {
  clearTimeout(waiting);
  waiting = setTimeout(ask, delay);
}

async function ask() {
  if (stopped || document.hidden) return;
  asked = Date.now();
  heard = false;
  try {
    const headers = { "X-Mainspring-Live": "1", ...(etag ? { "If-None-Match": etag } : {}) };
    const answer = await fetch(document.body.dataset.page || location.href, { headers, cache: "no-store" });
    if (answer.status === 401) return location.reload();  // to the login page
    if (answer.status === 200) {
      etag = answer.headers.get("ETag");
      update(new DOMParser().parseFromString(await answer.text(), "text/html"));
    } else if (answer.status !== 304) throw new Error(`${answer.status}`);
    if (answer.headers.has("X-Mainspring-Stale")) heard = true;
    if (polling) show("on", `Updated every ${Math.max(pace, LONGEST_REST) / 1000} s`);
    else if (failures) show("on", "Live");
    failures = 0;
  } catch {
    failures += 1;
    show("off", "Disconnected, trying again");
  }
  if (failures) plan(Math.min(RETRY * failures, LONGEST_REST));
  else plan(heard ? pace : Math.max(pace, LONGEST_REST));
}

function update(fresh) {
  for (const old of document.querySelectorAll("[data-live][id]")) {
    const found = fresh.getElementById(old.id);
    if (!found || busy(old) || found.innerHTML === old.dataset.html) continue;
    const html = found.innerHTML;
    if (plain(html) === plain(old.innerHTML)) continue;
    keepPlace(old, () => { old.innerHTML = html; });
    prepare(old);
    document.dispatchEvent(new CustomEvent("mainspring:updated", { detail: old }));
  }
}

const plain = (html) => html.replace(/(data-time="relative">)[^<]*/g, "$1").replace(/<button[^>]*class="copy"[^>]*>[^<]*<\/button>/g, "")
  .replace(/ data-ready=""| tabindex="0"/g, "").replace(/(<details[^>]*?) open=""/g, "$1");

// A section with the focus, an open menu, a ticked box, a half-written field or a text selection is left as it is.
function busy(element) {
  if (element.contains(document.activeElement) && document.activeElement !== document.body) return true;
  if (element.querySelector("details[open].menu, dialog[open], input[type=checkbox]:checked")) return true;
  for (const field of element.querySelectorAll("input:not([type=hidden]):not([type=checkbox]), textarea")) {
    if (field.value !== field.defaultValue) return true;
  }
  const selection = document.getSelection();
  return Boolean(selection && !selection.isCollapsed && element.contains(selection.anchorNode));
}

// What a user has opened and how far boxes are scrolled stays. Elements are known by their place, so they need no id.
function keepPlace(element, change) {
  const scrolled = [...places(element, ".scroll")].map(([place, each]) => [place, each.scrollTop, each.scrollLeft]);
  const open = new Map([...places(element, "details")].map(([place, each]) => [place, each.open]));
  const { scrollX, scrollY } = window;
  change();
  for (const [place, each] of places(element, "details")) if (open.has(place)) each.open = open.get(place);
  const boxes = places(element, ".scroll");
  for (const [place, top, left] of scrolled) boxes.get(place)?.scrollTo({ top, left });
  window.scrollTo({ left: scrollX, top: scrollY, behavior: "instant" });
}

// Elements by a key that is the same in the next version of the page, also if rows were added or removed before them:
// the id; or the row by what it links to, the words on the element, and which of several such elements it is.
function places(root, selector) {
  const found = new Map();
  for (const each of root.querySelectorAll(selector)) {
    const row = each.parentElement.closest("tr, li");
    const links = row && root.contains(row) ? [...row.querySelectorAll("a[href]")].map((link) => link.getAttribute("href")).join(" ") : "";
    const words = each.querySelector(":scope > summary")?.textContent ?? "";
    const key = each.id || `${links}\n${words}`;
    let number = 0;
    while (found.has(`${key}\n${number}`)) number += 1;
    found.set(`${key}\n${number}`, each);
  }
  return found;
}

function show(kind, words) {
  const state = document.getElementById("live-state");
  if (!state || state.textContent === words) return;
  state.className = `live ${kind}`;
  state.textContent = words;
}
