// Starts the page.
import { render } from "preact";
import { Client } from "./client.js";
import { listen } from "./copy.js";
import { html } from "./html.js";
import { App } from "./parts/app.js";

const root = document.getElementById("app");
let asked = false;

// draw draws once for all changes that happen together.
function draw() {
  if (asked) return;
  asked = true;
  queueMicrotask(() => {
    asked = false;
    render(html`<${App} client=${client} state=${{ ...client.state }} />`, root);
  });
}

const client = new Client(draw);
root.replaceChildren();
listen(document);
draw();
client.start();
