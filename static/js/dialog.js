// The one dialog: links with data-dialog open it, its form is answered inside it, it can be left at any time.
const dialog = document.getElementById("dialog");

export function openDialog(url) {
  const late = setTimeout(() => {
    if (dialog.open) return;
    dialog.replaceChildren(document.getElementById("dialog-waiting").content.cloneNode(true));
    dialog.showModal();
  }, 200);
  htmx.ajax("GET", url, { target: dialog, swap: "innerHTML" }).finally(() => {
    clearTimeout(late);
    if (dialog.querySelector("[data-waiting]")) dialog.close();
  });
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("[data-dialog]");
  if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
    event.preventDefault();
    openDialog(link.href);
  }
  const help = event.target.closest("[data-open-help]");
  if (help) {
    event.preventDefault();
    openDialog("/help/");
  }
  if (event.target.closest("[data-close]") && dialog.contains(event.target)) {
    event.preventDefault();
    dialog.close();
  }
  if (event.target === dialog) dialog.close();
});

document.addEventListener("htmx:afterSwap", (event) => {
  if (event.detail.target === dialog && !dialog.open && dialog.childElementCount) dialog.showModal();
  offers();
});

// what was polled inside stops with the content; an offer to undo stays in sight until it is too late
dialog.addEventListener("close", () => {
  const offer = dialog.querySelector("[data-undo]");
  if (offer) {
    const note = document.createElement("div");
    const line = document.createElement("div");
    const what = document.createElement("p");
    note.className = "note good";
    line.className = "row-between";
    what.textContent = dialog.querySelector("#dialog-title").textContent;
    line.append(what, offer);
    note.append(line);
    document.getElementById("toasts").append(note);
  }
  dialog.replaceChildren();
});

const UNDO_MS = 30000;
const ends = new Map(); // note -> when it is too late

function offers() {
  for (const form of document.querySelectorAll("[data-undo]:not([data-timed])")) {
    const { value } = form.elements.note;
    if (!ends.has(value)) ends.set(value, Date.now() + UNDO_MS);
    form.dataset.timed = "";
    setTimeout(() => (form.closest(".toasts .note") ?? form).remove(), Math.max(0, ends.get(value) - Date.now()));
  }
}

offers();
