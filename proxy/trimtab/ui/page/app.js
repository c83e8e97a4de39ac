// The frame of the page: which view is shown, the stream of exchanges that feeds it, and the key where one is needed.

import { follow, get, setKey } from "./api.js";
import { compare } from "./compare.js";
import { conversation } from "./conversation.js";
import { fill } from "./dom.js";
import { models } from "./models.js";
import { now } from "./now.js";

const VIEWS = { now, conversation, compare, models };
const KEPT = 500;
const EVERY_MS = 250; // however many requests there are, a view is told of them four times a second
const main = document.getElementById("main");
const state = document.getElementById("state");

const exchanges = []; // newest last
let waiting = [];
let timer = 0;
let view = null; // { seen(exchanges), close() }

function show() {
  const [name, ...rest] = location.hash.slice(1).split("/");
  const chosen = VIEWS[name] ? name : "now";
  view?.close?.();
  fill(main);
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${chosen}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${document.querySelector("nav a[aria-current]").textContent} – Trimtab`;
  view = VIEWS[chosen](main, { exchanges, argument: decodeURIComponent(rest.join("/")) });
}

function seen(found, fresh) {
  if (fresh) {
    exchanges.length = 0;
    waiting = [];
    show();
  }
  waiting.push(...found);
  timer ||= setTimeout(() => {
    timer = 0;
    const news = waiting;
    waiting = [];
    exchanges.push(...news);
    exchanges.splice(0, exchanges.length - KEPT);
    view?.seen?.(news);
  }, EVERY_MS);
}

function connected(is) {
  state.textContent = is ? "Live" : "Not connected, trying again …";
  state.className = is ? "live" : "lost";
}

const dialog = document.getElementById("key");
addEventListener("key-needed", () => {
  if (dialog.open) return;
  dialog.querySelector("form").reset();
  dialog.showModal();
});
dialog.addEventListener("close", async () => {
  setKey(dialog.querySelector("input").value);
  try {
    await get("/status");
    dispatchEvent(new Event("key-given"));
    show();
  } catch (error) {
    document.getElementById("key-wrong").textContent = error.message;
  }
});

addEventListener("hashchange", () => {
  if (location.hash === "#main") return main.focus();
  show();
  main.focus({ preventScroll: true });
});
addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, textarea, select, dialog");
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const name = Object.keys(VIEWS)[Number(event.key) - 1];
  if (name) location.hash = name;
});
follow(seen, connected);
show();
