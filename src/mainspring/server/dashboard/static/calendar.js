// The window calendar: drag from one cell to another to backfill all windows between them.

let from = null;

const cells = (calendar) => [...calendar.querySelectorAll("[data-begin]")];

function mark(calendar, first, last) {
  const all = cells(calendar);
  const [low, high] = [all.indexOf(first), all.indexOf(last)].sort((a, b) => a - b);
  all.forEach((cell, place) => cell.classList.toggle("chosen", place >= low && place <= high));
  return [all[low], all[high]];
}

document.addEventListener("pointerdown", (event) => {
  const cell = event.target.closest(".calendar[data-backfill] [data-begin]");
  if (cell && event.button === 0 && event.pointerType === "mouse") from = cell;
});

document.addEventListener("dragstart", (event) => { if (from) event.preventDefault(); });

document.addEventListener("pointerover", (event) => {
  const cell = from && event.target.closest("[data-begin]");
  if (cell && cell !== from) mark(from.closest(".calendar"), from, cell);
});

document.addEventListener("pointerup", (event) => {
  const [start, cell] = [from, event.target.closest("[data-begin]")];
  from = null;
  if (!start || !cell || start === cell) return;
  const calendar = start.closest(".calendar");
  const [first, last] = mark(calendar, start, cell);
  const query = new URLSearchParams({ begin: first.dataset.begin, end: last.dataset.end });
  location.assign(`${calendar.dataset.backfill}?${query}`);
});
