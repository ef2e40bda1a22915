// Times in the reader's zone, and parts of pages that renew themselves. Every page works without it.
"use strict";

const UNITS = [["year", 31557600], ["month", 2629800], ["week", 604800], ["day", 86400], ["h", 3600], ["min", 60], ["s", 1]];
const inFull = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit" });
const zone = new Intl.DateTimeFormat("en-GB", { timeZoneName: "short" });

function relative(seconds) {
  if (Math.abs(seconds) < 1) return "now";
  const [unit, size] = UNITS.find(([, size]) => Math.abs(seconds) >= size) || UNITS[UNITS.length - 1];
  const count = Math.floor(Math.abs(seconds) / size);
  const words = `${count} ${size >= 86400 && count !== 1 ? unit + "s" : unit}`;
  return seconds < 0 ? `${words} ago` : `in ${words}`;
}

function showTimes(root) {
  for (const time of root.querySelectorAll("time[data-time]")) {
    const when = new Date(time.dateTime);
    const mode = time.dataset.time;
    const zoneName = zone.formatToParts(when).find((part) => part.type === "timeZoneName").value;
    const full = `${inFull.format(when)} ${zoneName}`;
    const near = relative((when - Date.now()) / 1000);
    const words = mode === "relative" ? near : mode === "countdown" ? `${near} (${full})` : full;
    if (time.textContent !== words) time.textContent = words;
    time.title = mode === "local" ? near : full;
  }
}

// <body data-live="URL of a stream" data-live-names="queued finished" data-live-until="done">: at each event the
// page is fetched again, and the elements with an id and data-refresh take the new content.
let busy = false;
let again = false;
const shown = new Map(); // what the server sent: times were rewritten since

async function refresh() {
  if (busy) { again = true; return; }
  busy = true;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (answer.ok) {
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      document.title = page.title;
      for (const old of document.querySelectorAll("[data-refresh][id]")) {
        const fresh = page.getElementById(old.id);
        if (!fresh || fresh.innerHTML === shown.get(old.id)) continue;
        shown.set(old.id, fresh.innerHTML);
        showTimes(fresh);
        addCopyButtons(fresh);
        old.replaceChildren(...fresh.childNodes);
        document.dispatchEvent(new CustomEvent("refreshed", { detail: old }));
      }
    }
  } catch { /* the next event tries again */ }
  busy = false;
  if (again) { again = false; setTimeout(refresh, 300); }
}

function follow(body) {
  for (const each of document.querySelectorAll("[data-refresh][id]")) shown.set(each.id, each.innerHTML);
  const stream = new EventSource(body.dataset.live);
  const until = body.dataset.liveUntil || "";
  for (const name of (body.dataset.liveNames || "message").split(" ")) stream.addEventListener(name, refresh);
  if (until) stream.addEventListener(until, () => { stream.close(); refresh(); });
  addEventListener("pagehide", () => stream.close());
}

// A button that copies, on each text in fixed-width letters that readers take elsewhere.
const COPIED = "pre.code, .listing, pre.command";

function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  // Without https there is no clipboard but the old way.
  const area = Object.assign(document.createElement("textarea"), { value: text });
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
  return Promise.resolve();
}

function addCopyButtons(root) {
  for (const block of root.querySelectorAll(COPIED)) {
    const text = block.querySelector("pre:not(.linenos)") || block;
    const button = Object.assign(document.createElement("button"), { type: "button", className: "copy quiet small", textContent: "Copy" });
    button.addEventListener("click", () => copy(text.textContent).then(() => {
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    }));
    const around = document.createElement("div");
    around.className = "copied";
    block.replaceWith(around);
    around.append(block, button);
  }
}

// <form data-busy="What the server does">: while the answer is awaited, its last words say so, with the steps of the
// trial as they happen, and count the seconds.
function showBusy(form) {
  const told = form.querySelector("[data-told]");
  const began = Date.now();
  let steps = [];
  const tell = () => {
    const lines = steps.map(([text, seconds]) => `${text}: ${Math.floor(seconds)} s`);
    told.textContent = [`${form.dataset.busy} ${Math.floor((Date.now() - began) / 1000)} s so far.`, ...lines].join("\n");
  };
  const look = async () => {
    try {
      const answer = await fetch("/admin/steps", { headers: { Accept: "application/json" } });
      if (answer.ok) steps = await answer.json();
    } catch { /* the seconds go on */ }
    tell();
  };
  const buttons = [...form.querySelectorAll("button")];
  tell();
  const ticking = setInterval(look, 1000);
  // After this event, so that the button which was pressed is still sent; back on this page all is as before.
  setTimeout(() => { for (const each of buttons) each.disabled = true; });
  addEventListener("pageshow", () => {
    clearInterval(ticking);
    told.textContent = "";
    for (const each of buttons) each.disabled = false;
  }, { once: true });
}

// Moments in forms are typed in the reader's zone, which their labels then name, and sent in UTC.
function useLocalZone(field) {
  const utc = field.defaultValue;
  if (utc) {
    const when = new Date(`${utc}Z`);
    field.value = new Date(when - when.getTimezoneOffset() * 60000).toISOString().slice(0, 19);
  }
  const shown = field.value; // as the browser writes it
  field.labels[0].querySelector("[data-zone]").textContent = zone.resolvedOptions().timeZone;
  field.form.addEventListener("formdata", ({ formData }) => {
    // One that stays as it is goes back as it came: in the hour that occurs twice, local time is ambiguous.
    const typed = field.value && new Date(field.value).toISOString().slice(0, 19);
    formData.set(field.name, field.value === shown ? utc : typed);
  });
}

// How much is new for the reader. Only the page in front listens: browsers open few connections to one server.
function followBell(bell) {
  const count = bell.querySelector("b");
  let stream = null;
  const end = () => { if (stream) stream.close(); stream = null; };
  const begin = () => {
    if (document.hidden || stream) return;
    stream = new EventSource(bell.dataset.stream);
    stream.addEventListener("bell", ({ data }) => {
      count.hidden = data === "0";
      count.textContent = data === "100" ? "99+" : data;
      bell.title = data === "0" ? "Nothing new" : `${data} new`;
    });
    stream.addEventListener("off", () => { end(); document.removeEventListener("visibilitychange", turn); });
  };
  const turn = () => { if (document.hidden) end(); else begin(); };
  document.addEventListener("visibilitychange", turn);
  addEventListener("pagehide", end);
  begin();
}

for (const field of document.querySelectorAll("input[type=datetime-local]")) useLocalZone(field);
for (const form of document.querySelectorAll("form[data-busy]")) form.addEventListener("submit", () => showBusy(form));
if (document.body.dataset.live) follow(document.body);
if (document.getElementById("bell")) followBell(document.getElementById("bell"));
addCopyButtons(document);
showTimes(document);
setInterval(() => showTimes(document), 10000);
