// Relative times stay true, and the server learns the viewer's zone.

const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

export function spanWords(seconds) {
  let left = Math.round(seconds);
  const parts = [];
  for (const [unit, size] of UNITS) {
    const count = Math.floor(left / size);
    left -= count * size;
    if (count || parts.length) parts.push(count ? `${count} ${unit}` : "");
  }
  return parts.slice(0, 2).filter(Boolean).join(" ");
}

export function relativeWords(at, now = Date.now()) {
  const seconds = (now - at) / 1000;
  if (Math.abs(seconds) < 1) return "now";
  const words = spanWords(Math.abs(seconds));
  return seconds > 0 ? `${words} ago` : `in ${words}`;
}

function refresh() {
  if (document.hidden) return;
  for (const each of document.querySelectorAll('time[data-time="relative"]')) {
    const words = relativeWords(Date.parse(each.dateTime));
    if (each.textContent !== words) each.textContent = words;
  }
}

export function keepTimes() {
  setInterval(refresh, 1000);
  document.addEventListener("visibilitychange", refresh);
}

export function rememberZone() {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (!zone || document.cookie.split("; ").includes(`mainspring_zone=${zone}`)) return;
  const path = document.body.dataset.root.replace(/\/dashboard$/, "") || "/";
  document.cookie = `mainspring_zone=${zone}; path=${path}; max-age=31536000; samesite=lax`;
}
