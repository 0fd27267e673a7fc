// The way in.
import { useEffect, useRef, useState } from "preact/hooks";
import * as api from "../api.js";
import { html } from "../html.js";
import { Mark, Spinner } from "./icons.js";

export function Login({ client }) {
  const [error, setError] = useState("");
  const [wait, setWait] = useState(false);
  const [byLink, setByLink] = useState(false); // no password is set
  const [over] = useState(() => new URLSearchParams(location.search).get("link") === "over");
  const field = useRef();
  useEffect(() => {
    field.current?.focus();
    if (over) history.replaceState(null, "", "/" + location.hash);
    api.ways().then((w) => setByLink(w.password === false), () => {}); // unknown: the form says
  }, []);
  const submit = async (e) => {
    e.preventDefault();
    if (!field.current.value || wait) return;
    setWait(true);
    setError("");
    try {
      await client.login(field.current.value);
    } catch (err) {
      setError(err.message.charAt(0).toUpperCase() + err.message.slice(1) + ".");
      setWait(false);
      field.current?.select();
    }
  };
  return html`<main class="splash">
    <form class="login" onSubmit=${submit}>
      <${Mark} size=${52} />
      <h1>Iris</h1>
      ${over && html`<p class="login-over" role="alert">This login link was used or has expired.</p>`}
      ${byLink ? html`<p class="login-way">To log in, open the link that <code>iris serve</code> prints when it starts. It works once, for ten minutes; a restart prints a new one.</p>` : html`
      <label for="password">Password</label>
      <input id="password" ref=${field} type="password" autocomplete="current-password" required
        aria-invalid=${error ? "true" : "false"} aria-describedby="login-error" />
      <p id="login-error" class="login-error" role="alert">${error}</p>
      <button class="button primary" type="submit" disabled=${wait}>${wait ? html`<${Spinner} />` : "Log in"}</button>
      <p class="hint">No password set? Open the login link that <code>iris serve</code> prints when it starts. It works once, for ten minutes.</p>`}
    </form>
  </main>`;
}
