// Markdown to HTML that is safe to show. What a model writes is data: raw HTML
// is shown as text, images become links (the page loads nothing from elsewhere)
// and whatever is left passes DOMPurify.
import DOMPurify from "dompurify";
import { Marked } from "marked";

const escapes = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
const escape = (s) => String(s).replace(/[&<>"']/g, (c) => escapes[c]);

const marked = new Marked({
  gfm: true,
  breaks: true,
  renderer: {
    html({ text }) {
      return escape(text);
    },
    code({ text, lang }) {
      const name = /^[\w+#.-]{1,24}/.exec(lang ?? "")?.[0] ?? "";
      return `<div class="code"><div class="code-head"><span>${escape(name || "text")}</span>` +
        `<button type="button" class="copy">Copy</button></div><pre tabindex="0"><code>${escape(text)}</code></pre></div>`;
    },
    table(token) {
      const cell = (tag) => (c) => `<${tag}${c.align ? ` align="${c.align}"` : ""}>${this.parser.parseInline(c.tokens)}</${tag}>`;
      const head = token.header.map(cell("th")).join("");
      const rows = token.rows.map((r) => `<tr>${r.map(cell("td")).join("")}</tr>`).join("");
      return `<div class="table" tabindex="0"><table><thead><tr>${head}</tr></thead><tbody>${rows}</tbody></table></div>`;
    },
    image({ href, text }) {
      return `<a href="${escape(href)}">${escape(text || href)}</a>`;
    },
  },
});

const allowed = {
  ALLOWED_TAGS: ["a", "p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "strong", "em", "del", "code", "pre", "blockquote",
    "ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td", "div", "span", "button", "input"],
  ALLOWED_ATTR: ["href", "title", "class", "type", "align", "start", "checked", "disabled", "tabindex", "target", "rel"],
  ALLOWED_URI_REGEXP: /^(?:https?:\/\/|mailto:|\/files\/|#)/i,
  // These hold no address and are not judged as one.
  ADD_URI_SAFE_ATTR: ["type", "align", "start", "tabindex", "checked", "disabled", "target", "rel"],
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
};

const purify = DOMPurify(window);
purify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName !== "A" || !node.hasAttribute("href")) return;
  if (node.getAttribute("href").startsWith("#")) return node.removeAttribute("href");
  node.setAttribute("target", "_blank");
  node.setAttribute("rel", "noopener noreferrer nofollow");
});

function render(text, inline) {
  try {
    return purify.sanitize(inline ? marked.parseInline(text) : marked.parse(text), allowed);
  } catch (err) {
    console.error("markdown", err);
    return `<p class="plain">${escape(text)}</p>`;
  }
}

// kept remembers what was rendered, so that scrolling back is cheap. The oldest
// goes first.
const kept = new Map();
const maxKept = 400;

// markdown renders a text that is complete.
export function markdown(text) {
  let out = kept.get(text);
  if (out === undefined) {
    out = render(text, false);
    kept.set(text, out);
    if (kept.size > maxKept) kept.delete(kept.keys().next().value);
  }
  return out;
}

// growing renders a text that is not.
export const growing = (text) => render(text, false);

// line renders one line, without paragraphs.
export const line = (text) => render(text, true);
