// One execution, live: new log lines are appended, and the progress and counters move as they are stored; when its state
// changes, the whole page asks for itself again. Without this script the page shows the same, as of the time it was loaded.
import { spanWords } from "./times.js";

const LEVELS = ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"];
const MOST_LINES = 2000;
const SLACK = 24;

const section = document.getElementById("log");
let stream = null;
let seen = "";
let following = true;

function open() {
  if (stream || document.hidden || section.dataset.final === "yes") return;
  const address = new URL(section.dataset.log, location.href);
  address.searchParams.set("after", lastNumber());
  stream = new EventSource(address);
  stream.addEventListener("open", () => section.removeAttribute("data-live"));  // from now on, lines come by themselves
  stream.addEventListener("log", (event) => add(JSON.parse(event.data)));
  stream.addEventListener("execution", (event) => show(JSON.parse(event.data)));
  stream.addEventListener("end", () => { section.dataset.final = "yes"; close(); showFollow(); refresh(); });
  stream.addEventListener("error", () => {
    section.setAttribute("data-live", "");
    if (stream && stream.readyState === EventSource.CLOSED) { stream = null; setTimeout(open, 5000); }
  });
}

function close() {
  stream?.close();
  stream = null;
  section.setAttribute("data-live", "");
}

const refresh = () => document.dispatchEvent(new CustomEvent("mainspring:refresh"));
const lines = () => document.getElementById("lines");
const lastNumber = () => lines().lastElementChild?.dataset.number || new URL(section.dataset.log, location.href).searchParams.get("after") || "0";

// --- the log ---------------------------------------------------------------------------------------------------

function add(line) {
  const box = lines();
  if (!wanted(line.level) || line.number <= Number(lastNumber())) return;
  const atEnd = box.scrollHeight - box.scrollTop - box.clientHeight < SLACK;
  const row = document.createElement("p");
  row.className = line.level.toLowerCase().replaceAll(" ", "-");
  row.dataset.number = line.number;
  const at = document.createElement("time");
  at.dateTime = line.at;
  at.title = new Date(line.at).toString();
  at.textContent = new Date(line.at).toTimeString().slice(0, 8);
  const level = document.createElement("b");
  level.textContent = line.level;
  const logger = document.createElement("span");
  logger.className = "muted";
  logger.textContent = line.logger;
  row.append(at, " ", level, " ", logger, ` ${line.message}`);
  box.append(row);
  while (box.childElementCount > MOST_LINES) box.firstElementChild.remove();
  section.querySelector("[data-no-lines]")?.remove();
  if (atEnd && following) box.scrollTop = box.scrollHeight;
}

function wanted(level) {
  const least = LEVELS.indexOf(section.dataset.level);
  const place = LEVELS.indexOf(level);
  return least <= 0 || place < 0 || place >= least;  // levels that only the application knows are shown
}

function showFollow() {
  const button = section.querySelector("[data-follow]");
  if (!button) return;
  button.hidden = section.dataset.final === "yes";
  button.setAttribute("aria-pressed", following);
}

function scrollToEnd() {
  const box = section && lines();
  if (box) box.scrollTop = box.scrollHeight;
}

// --- state and progress ------------------------------------------------------------------------------------------

function show(execution) {
  const now = [execution.status, execution.attempt, execution.worker, execution.cancel_requested_at, Boolean(execution.progress), ...Object.keys(execution.counters ?? {})].join(" ");
  if (seen && now !== seen) refresh();
  seen = now;
  for (const shown of document.querySelectorAll("[data-counter]")) {
    const count = execution.counters?.[shown.dataset.counter];
    if (count !== undefined) shown.textContent = number(count, Number.isInteger(count) ? 0 : 2);
  }
  const words = document.querySelector("[data-progress]");
  const bar = document.querySelector("#progress progress");
  if (!words || !bar || !execution.progress) return;
  const { done, total, percent, rate, eta_seconds: left, message } = execution.progress;
  if (total) { bar.max = total; bar.value = done; }
  const parts = [total === undefined ? `${number(done)} done` : `${number(done)} of ${number(total)}`];
  if (percent !== undefined) parts.push(`${number(percent, 0)} %`);
  if (rate !== undefined) parts.push(`${number(rate, 1)} per second`);
  if (left !== undefined && done < total) parts.push(`about ${spanWords(Math.max(1, left))} left`);
  words.textContent = parts.join(", ") + (message ? `: ${message}` : "");
}

const number = (value, digits = 0) => value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });

if (section && section.dataset.final === "no") {
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  window.addEventListener("pagehide", close);
  section.addEventListener("click", (event) => {
    if (!event.target.closest("[data-follow]")) return;
    following = !following;
    showFollow();
    if (following) scrollToEnd();
  });
  document.addEventListener("mainspring:updated", showFollow);
  showFollow();
  open();
}
scrollToEnd();
