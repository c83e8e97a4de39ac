// The API under /ui/api. The key, where one is needed, stays in this tab and goes into a header, never into a cookie.

const KEY = "trimtab-ui-key";

export class ApiError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

export const setKey = (key) => sessionStorage.setItem(KEY, key);

function headers() {
  const key = sessionStorage.getItem(KEY);
  return key ? { authorization: `Bearer ${key}` } : {};
}

async function call(path, options = {}) {
  let answer;
  try {
    answer = await fetch(`/ui/api${path}`, { ...options, credentials: "omit", headers: headers() });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The proxy does not answer. Is it running?", 0);
  }
  if (answer.ok) return answer;
  let message = `The proxy answered with status ${answer.status}.`;
  try {
    message = (await answer.json()).error.message;
  } catch {
    /* not ours: the status says enough */
  }
  if (answer.status === 401) dispatchEvent(new Event("key-needed"));
  throw new ApiError(message, answer.status);
}

export const get = async (path, signal) => (await call(path, { signal })).json();

/** What would be sent. `body` is the text of a request, `rest` the other fields of what is asked. */
export async function plan(body, rest, signal) {
  const fields = JSON.stringify(rest).slice(1, -1);
  const asked = body === null ? `{${fields}}` : `{"body":${body}${fields && `,${fields}`}}`; // its own bytes, not parsed
  return (await call("/plan", { method: "POST", body: asked, signal })).json();
}

/** Call `seen` with exchanges as they end and `connected` with true or false; returns a function that stops. */
export function follow(seen, connected) {
  const stop = new AbortController();
  let after = 0;
  const wait = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
  (async () => {
    for (let pause = 500; !stop.signal.aborted; pause = Math.min(pause * 2, 8000)) {
      try {
        if (after && (await get(`/exchanges?after=${after}`, stop.signal)).newest < after) {
          after = 0; // another process answers than before: its numbers begin again
          seen([], true);
        }
        const answer = await call(`/events?after=${after}`, { signal: stop.signal });
        connected(true);
        pause = 500;
        for await (const exchange of exchanges(answer.body)) {
          after = exchange.number;
          seen([exchange], false);
        }
      } catch (error) {
        if (stop.signal.aborted) return;
        if (error.status === 401) await new Promise((done) => addEventListener("key-given", done, { once: true }));
      }
      connected(false);
      await wait(pause);
    }
  })();
  return () => stop.abort();
}

async function* exchanges(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const data = event.split("\n").find((line) => line.startsWith("data: "));
      if (data) yield JSON.parse(data.slice(6));
    }
  }
}
