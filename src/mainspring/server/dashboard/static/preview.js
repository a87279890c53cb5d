// A form with data-preview shows what its fields mean while they are filled in. Without this script the button does it.
import { prepare } from "./prepare.js";

const PAUSE = 300;

for (const form of document.querySelectorAll("form[data-preview]")) {
  const into = document.getElementById(form.dataset.previewInto);
  let waiting = null;
  let asked = 0;

  const ask = async () => {
    const fields = new FormData(form);
    const query = new URLSearchParams({ schedule: fields.get("schedule"), timezone: fields.get("timezone") });
    const number = ++asked;
    const answer = await fetch(`${form.dataset.preview}?${query}`, { cache: "no-store" }).catch(() => null);
    if (!answer?.ok || number !== asked) return;
    into.innerHTML = await answer.text();
    prepare(into);
  };

  const shown = [form.elements.schedule, form.elements.timezone];
  if (shown.some((field) => field.value !== field.defaultValue)) ask();  // written before this script was there
  form.addEventListener("input", (event) => {
    if (!shown.includes(event.target)) return;
    clearTimeout(waiting);
    waiting = setTimeout(ask, PAUSE);
  });
  form.querySelector("[data-preview-button]")?.addEventListener("click", (event) => {
    event.preventDefault();
    ask();
  });
}
