// The one dialog: links with data-dialog open it, its form is answered inside it, it can be left at any time.
const dialog = document.getElementById("dialog");

export function openDialog(url) {
  htmx.ajax("GET", url, { target: dialog, swap: "innerHTML" });
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
});

// what was polled inside stops with the content
dialog.addEventListener("close", () => dialog.replaceChildren());
