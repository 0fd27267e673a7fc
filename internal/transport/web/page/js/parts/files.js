// Files in and out: chips, pictures, and the place to drop them.
import { useEffect, useRef, useState } from "preact/hooks";
import { fileURL } from "../api.js";
import { bytes, isPicture, pictureType } from "../format.js";
import { html, memo } from "../html.js";
import { Dialog } from "./dialog.js";
import { Icon } from "./icons.js";

// sizes remembers what was asked for; a file does not change its size.
const sizes = new Map();

// useSize asks for the size of a file: a number, undefined while it is not known,
// null when the file is gone.
function useSize(url) {
  const [size, setSize] = useState(sizes.get(url));
  useEffect(() => {
    if (sizes.has(url)) return setSize(sizes.get(url));
    let here = true;
    fetch(url, { method: "HEAD" }).then(
      (r) => {
        if (!r.ok && r.status !== 404) return;
        const n = r.ok ? Number(r.headers.get("Content-Length")) : null;
        sizes.set(url, n);
        if (here) setSize(n);
      },
      () => {},
    );
    return () => (here = false);
  }, [url]);
  return size;
}

function Chip({ url, name, size }) {
  if (size === null) return html`<span class="chip gone"><${Icon} name="file" /><span class="chip-name" dir="auto">${name}</span><small>no longer there</small></span>`;
  return html`<a class="chip" href=${url} download=${name} title=${"Download " + name}><${Icon} name="file" /><span class="chip-name" dir="auto">${name}</span><small>${bytes(size)}</small></a>`;
}

// Attached is a file that came with a message.
export const Attached = memo(function Attached({ file, thread }) {
  const name = file.original || file.local?.split("/").at(-1) || "file";
  if (file.missing) return html`<span class="chip gone" title=${file.missing}><${Icon} name="file" /><span class="chip-name" dir="auto">${name}</span><small>${file.missing}</small></span>`;
  return html`<${Shown} url=${fileURL(thread, file.local)} name=${name} />`;
});

// FileOut is a file that Iris gave.
export const FileOut = memo(({ url, name, title }) => html`<div class="file-out">
  ${title && title !== name && html`<span class="file-title" dir="auto">${title}</span>`}<${Shown} url=${url} name=${name} /></div>`);

function Shown({ url, name }) {
  const size = useSize(url);
  const picture = isPicture(name) && size && size < 20e6;
  return html`<div class="shown">${picture && html`<${Picture} url=${url} name=${name} />`}<${Chip} url=${url} name=${name} size=${size} /></div>`;
}

// Picture fetches what the server sends as bytes to be saved, when it comes into
// view, and shows it from memory.
function Picture({ url, name }) {
  const [src, setSrc] = useState("");
  const [large, setLarge] = useState(false);
  const el = useRef();
  useEffect(() => {
    let made = "";
    let here = true;
    const watch = new IntersectionObserver(async (seen) => {
      if (!seen.some((e) => e.isIntersecting)) return;
      watch.disconnect();
      try {
        const res = await fetch(url);
        if (!res.ok) return;
        const blob = new Blob([await res.arrayBuffer()], { type: pictureType(name) });
        if (!here) return;
        made = URL.createObjectURL(blob);
        setSrc(made);
      } catch {
        // The chip is there.
      }
    }, { rootMargin: "400px" });
    watch.observe(el.current);
    return () => {
      here = false;
      watch.disconnect();
      if (made) URL.revokeObjectURL(made);
    };
  }, [url]);
  return html`<div class="picture" ref=${el}>
    ${src && html`<button type="button" aria-label=${"Enlarge " + name} onClick=${() => setLarge(true)}><img src=${src} alt=${name} onError=${() => setSrc("")} /></button>`}
    ${large && html`<${Dialog} label=${name} kind="lightbox" onClose=${() => setLarge(false)}><img src=${src} alt=${name} /><//>`}
  </div>`;
}

// Uploads are the files of the next message.
export function Uploads({ uploads, client }) {
  if (!uploads.length) return null;
  return html`<ul class="uploads" aria-label="Files of the next message">${uploads.map((u) => html`<li key=${u.key} class=${"upload" + (u.error ? " failed" : u.local ? " done" : "")}>
    <${Icon} name=${u.error ? "warn" : "file"} size=${15} />
    <span class="chip-name" dir="auto" title=${u.name}>${u.name}</span>
    <small role=${u.error ? "alert" : undefined}>${u.error || bytes(u.size)}</small>
    ${!u.error && !u.local && html`<progress max="1" value=${u.progress} aria-label=${"Uploading " + u.name}></progress>`}
    <button class="button ghost" type="button" aria-label=${"Remove " + u.name} onClick=${() => client.detach(u.key)}><${Icon} name="close" size=${13} /></button>
  </li>`)}</ul>`;
}

// Drop takes files that are dropped anywhere on the page.
export function Drop({ client }) {
  const [over, setOver] = useState(false);
  useEffect(() => {
    let depth = 0;
    const files = (e) => e.dataTransfer?.types.includes("Files");
    const enter = (e) => files(e) && (e.preventDefault(), depth++, setOver(true));
    const leave = (e) => files(e) && --depth <= 0 && ((depth = 0), setOver(false));
    const hover = (e) => files(e) && e.preventDefault();
    const drop = (e) => {
      if (!files(e)) return;
      e.preventDefault();
      depth = 0;
      setOver(false);
      client.attach(e.dataTransfer.files);
    };
    const all = { dragenter: enter, dragleave: leave, dragover: hover, drop };
    for (const [name, f] of Object.entries(all)) addEventListener(name, f);
    return () => {
      for (const [name, f] of Object.entries(all)) removeEventListener(name, f);
    };
  }, []);
  return over && html`<div class="drop"><div><${Icon} name="clip" size=${28} /><p>Drop files to attach them</p></div></div>`;
}
