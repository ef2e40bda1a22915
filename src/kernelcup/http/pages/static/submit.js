// The submission page: an editor in front of the text area, checks before sending, drafts. It works without.
"use strict";

(() => {
  const form = document.querySelector("form.submit");
  const area = form.querySelector("#code");
  const name = form.querySelector("#file_name");
  const upload = form.querySelector("#upload");
  const told = form.querySelector("#checks");
  const draft = form.querySelector("#draft");
  const { board, devices, endings, largest } = form.dataset;
  const place = `kernelcup:draft:${board}`;
  const template = area.value;
  const size = (text) => new TextEncoder().encode(text).length;

  function kept() {
    try { return JSON.parse(localStorage.getItem(place)); } catch { return null; }
  }
  function keep() {
    try { localStorage.setItem(place, JSON.stringify({ code: area.value, name: name.value })); } catch { /* no room */ }
  }

  // What the server would refuse, said while it can still be changed. The server has the last word.
  function faults(code, fileName, bytes) {
    const found = [];
    if (bytes > Number(largest)) found.push(`It has ${bytes.toLocaleString("en")} bytes; ${Number(largest).toLocaleString("en")} are allowed.`);
    if (!endings.split(" ").some((each) => fileName.toLowerCase().endsWith(each))) found.push(`The name should end in ${endings.replaceAll(" ", " or ")}.`);
    if (!code.trim()) found.push("It is empty.");
    const known = devices.toLowerCase().split(" ");
    for (const [at, line] of code.split("\n").entries()) {
      const comment = line.trim();
      if (!/^(#|\/\/)/.test(comment)) break;
      const match = /^(?:#|\/\/)!popcorn(?:\s+(.*))?$/i.exec(comment);
      if (!match) continue;
      const [key, ...values] = (match[1] || "").replaceAll(",", " ").split(/\s+/).filter(Boolean);
      const where = `Line ${at + 1}`;
      if (/^leaderboard$/i.test(key) && values[0] && values[0].toLowerCase() !== board.toLowerCase()) found.push(`${where} names the leaderboard ${values[0]}; this is ${board}.`);
      else if (/^gpus?$/i.test(key)) for (const each of values) { if (!known.includes(each.toLowerCase())) found.push(`${where} names ${each}; this leaderboard has ${devices.replaceAll(" ", ", ")}.`); }
      else if (!/^(leaderboard|entry)$/i.test(key)) found.push(`${where}: only leaderboard, gpu and entry follow !POPCORN.`);
    }
    return found;
  }
  async function check() {
    const [file, ...others] = upload.files;
    const code = file ? await file.slice(0, 4096).text() : area.value;
    // What is in a zip or in several files only the server checks.
    const several = others.length || (file && file.name.toLowerCase().endsWith(".zip"));
    const found = several ? [] : faults(code, file ? file.name : name.value, file ? file.size : size(area.value));
    told.replaceChildren(...found.map((text) => Object.assign(document.createElement("li"), { textContent: text })));
  }

  const before = kept();
  if ("template" in form.dataset && before && before.code && before.code !== template) {
    area.value = before.code;
    if (before.name) name.value = before.name;
    draft.hidden = false;
  }
  const editor = globalThis.kernelcupEditor && kernelcupEditor.attach(area, name.value);
  if (editor) {
    form.querySelector("#keys").hidden = false;
    name.addEventListener("change", () => editor.rename(name.value));
  }
  draft.querySelector("button").addEventListener("click", () => {
    if (editor) editor.set(template); else area.value = template;
    draft.hidden = true;
    keep();
    check();
  });

  // Before the editor sees it, to which it is a key of its own.
  form.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    event.stopPropagation();
    form.requestSubmit(form.querySelector("aside button"));
  }, { capture: true });

  // The statement stands beside the code where there is room for both, unless it was closed before.
  const statement = form.querySelector("#statement");
  const wide = matchMedia("(min-width: 1121px)");
  const closed = "kernelcup:statement-closed";
  try { statement.open = wide.matches && !localStorage.getItem(closed); } catch { statement.open = wide.matches; }
  statement.addEventListener("toggle", () => {
    if (!wide.matches) return;
    try { statement.open ? localStorage.removeItem(closed) : localStorage.setItem(closed, "1"); } catch { /* no room */ }
  });

  let later;
  form.addEventListener("input", () => {
    clearTimeout(later);
    later = setTimeout(() => { keep(); check(); }, 300);
  });
  form.addEventListener("submit", () => {
    keep();
    // Once: after this event, so that the button which was pressed is still sent.
    setTimeout(() => { for (const each of form.querySelectorAll("button")) each.disabled = true; });
  });
  addEventListener("pageshow", () => { for (const each of form.querySelectorAll("button")) each.disabled = false; });
  check();
})();
