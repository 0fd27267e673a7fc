// Buttons that copy: one listener for all of them, those inside of rendered
// Markdown included, which can have none of their own.

export function listen(root) {
  root.addEventListener("click", async (e) => {
    const button = e.target.closest?.("button.copy, button.copy-reply");
    if (!button) return;
    const text = button.dataset.copy ?? button.closest(".code")?.querySelector("pre")?.textContent ?? "";
    const done = await copy(text);
    const old = button.dataset.was ?? (button.dataset.was = button.classList.contains("copy") ? button.textContent : "");
    button.classList.add(done ? "copied" : "not-copied");
    if (old) button.textContent = done ? "Copied" : "Not copied";
    setTimeout(() => {
      button.classList.remove("copied", "not-copied");
      if (old) button.textContent = old;
    }, 1500);
  });
}

// copy works without the clipboard API too, which plain HTTP does not have.
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "sr";
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
