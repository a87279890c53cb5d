// What is added to the elements of a page, and again to those that an update brings.

export function prepare(root) {
  for (const block of root.querySelectorAll("[data-copy]:not([data-ready])")) addCopyButton(block);
  for (const box of root.querySelectorAll("input[data-select-all]:not([data-ready])")) selectAll(box);
  for (const field of root.querySelectorAll("[data-submit-on-change]:not([data-ready])")) {
    field.dataset.ready = "";
    field.addEventListener("change", () => field.form.requestSubmit());
  }
  for (const box of root.querySelectorAll(".scroll:not([role])")) sizes.observe(box);
}

// What is larger than its box can be scrolled with the keys: the box takes the focus if nothing inside does.
const sizes = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const scrolls = target.scrollWidth > target.clientWidth || target.scrollHeight > target.clientHeight;
    if (scrolls && !target.querySelector("a, button, input, summary")) target.tabIndex = 0;
    else target.removeAttribute("tabindex");
  }
});

function addCopyButton(block) {
  block.dataset.ready = "";
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  const text = block.textContent.trim();
  button.addEventListener("click", async () => {
    button.textContent = (await copied(text)) ? "Copied" : "Press Ctrl+C";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  block.append(button);
}

// The clipboard exists on https and localhost only; elsewhere the text is selected for Ctrl+C.
async function copied(text) {
  if (navigator.clipboard) {
    try { await navigator.clipboard.writeText(text); return true; } catch { /* not permitted */ }
  }
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "offscreen";
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}

function selectAll(box) {
  box.dataset.ready = "";
  const others = () => box.closest("form").querySelectorAll(`input[name="${box.dataset.selectAll}"]`);
  box.addEventListener("change", () => { for (const each of others()) each.checked = box.checked; });
}
