// The parts of every page: relative times, live updates, keys, copy buttons. Pages work without any of this.
import { startLive } from "./live.js";
import { keepTimes, rememberZone } from "./times.js";
import { startKeys } from "./keys.js";
import { prepare } from "./prepare.js";

// A page with a refused form has the address of the form, which nobody can open.
const { page } = document.body.dataset;
if (page) history.replaceState(null, "", page);
rememberZone();
prepare(document);
keepTimes();
startKeys();
startLive();

// On a phone the pages of the header are one line that scrolls: it begins with the page that is open in sight.
document.querySelector("header nav > [aria-current], header nav > :has(> .current)")?.scrollIntoView({ block: "nearest", inline: "nearest" });
