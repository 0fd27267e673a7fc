// Dialogs: the browser's own, which keep the focus inside.
import { useEffect, useRef } from "preact/hooks";
import { html } from "../html.js";

export function Dialog({ label, kind = "", onClose, children }) {
  const el = useRef();
  // The event of a dialog that is taken away comes late and would close the next.
  const gone = useRef(false);
  useEffect(() => {
    const d = el.current;
    const before = document.activeElement;
    d.showModal();
    return () => {
      gone.current = true;
      if (d.open) d.close();
      requestAnimationFrame(() => refocus(before));
    };
  }, []);
  const outside = (e) => e.target === el.current && el.current.close();
  return html`<dialog ref=${el} class=${"dialog " + kind} aria-label=${label} onClose=${() => gone.current || onClose()} onClick=${outside}>
    <div class="dialog-body">${children}</div></dialog>`;
}

// refocus gives the focus back. The browser does so too, but Chromium may leave
// the caret behind in the dialog that is gone, and then typing does nothing.
function refocus(el) {
  const now = document.activeElement;
  if (!el?.isConnected || (now !== el && now !== document.body)) return;
  el.blur();
  el.focus({ preventScroll: true });
}

export function Confirm({ title, yes, no = "Cancel", onYes, onClose, children }) {
  return html`<${Dialog} label=${title} kind="confirm" onClose=${onClose}>
    <h2>${title}</h2><p>${children}</p>
    <form method="dialog" class="dialog-buttons">
      <button class="button">${no}</button>
      <button class="button primary" autofocus onClick=${onYes}>${yes}</button>
    </form><//>`;
}
