// What lives on the page: forms that answer as one types, the tail of calls, copying. All else works without it.

for (const form of document.querySelectorAll("form[data-live]")) {
  const shown = document.getElementById(form.dataset.live);
  let waiting, timer;
  const show = async () => {
    waiting?.abort();
    waiting = new AbortController();
    const given = new URLSearchParams([...new FormData(form)].filter(([, value]) => value !== ""));
    const url = new URL(form.action);
    url.search = given;
    history.replaceState(null, "", url);
    given.set("part", form.dataset.live);
    url.search = given;
    try {
      const answer = await fetch(url, { signal: waiting.signal });
      const text = await answer.text();
      const told = new DOMParser().parseFromString(text, "text/html");
      const fresh = shown.cloneNode();
      fresh.append(...(answer.ok ? told.body.childNodes : told.querySelectorAll("main .told")));
      become(shown, fresh);
      ready(shown);
      tell(form, shown);
    } catch (error) {
      if (error.name !== "AbortError") shown.textContent = "The server did not answer.";
    }
  };
  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(show); // letters that come in one go are asked for once
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    show();
  });
}

// Say at each field what an answer says is wrong with it.
function tell(form, shown) {
  for (const said of form.querySelectorAll("[id^=wrong-]")) {
    const name = said.id.slice("wrong-".length);
    said.textContent = shown.querySelector(`[data-wrong="${name}"] span`)?.textContent ?? "";
    form.elements[name].ariaInvalid = said.textContent ? "true" : null;
  }
}

for (const shown of document.querySelectorAll("[data-again]")) {
  const url = new URL(location.href);
  url.searchParams.set("part", shown.id);
  setInterval(async () => {
    if (document.hidden) return;
    const answer = await fetch(url).catch(() => null);
    if (!answer?.ok) return;
    const fresh = shown.cloneNode();
    fresh.append(...new DOMParser().parseFromString(await answer.text(), "text/html").body.childNodes);
    become(shown, fresh);
  }, 1000 * shown.dataset.again);
}

// Make an element as another is, and leave alone what is so: a thousand rows take a quarter second to lay out anew.
function become(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  const [had, has] = [[...old.childNodes], [...fresh.childNodes]];
  if (!old.attributes || old.nodeName !== fresh.nodeName) return old.replaceWith(fresh);
  for (const { name } of [...old.attributes]) if (name !== "open" && !fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  if (had.length !== has.length) old.replaceChildren(...has);
  else had.forEach((each, i) => become(each, has[i]));
}

function ready(within) {
  for (const time of within.querySelectorAll("time[data-at]")) {
    const at = new Date(Number(time.dataset.at) * 1000);
    time.dateTime = at.toISOString();
    time.textContent = at.toLocaleString("sv"); // as wide as what stands there in UTC, so that nothing moves
    time.title = at.toLocaleString();
    delete time.dataset.at;
  }
  for (const button of within.querySelectorAll("button.copy")) {
    button.hidden = false;
    button.onclick = async () => {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
      button.textContent = "Copied";
    };
  }
}
ready(document);

const tail = document.querySelector("tbody[data-events]");
if (tail) {
  const live = document.getElementById("live");
  const MOST = 1000;
  let url = tail.dataset.events;
  let source;
  const open = () => {
    source = new EventSource(url);
    source.onopen = () => (live.textContent = "Live: calls are shown as they come.");
    source.onerror = () => (live.textContent = "Not live now: the server does not answer. It is tried again.");
    source.onmessage = (event) => {
      const given = new URL(url, location.href);
      given.searchParams.set("after", event.lastEventId);
      url = given.href;
      const rows = new DOMParser().parseFromString(`<table>${event.data}</table>`, "text/html").querySelectorAll("tr");
      for (const row of rows) {
        row.classList.add("new");
        ready(row);
        tail.prepend(row);
      }
      while (tail.rows.length > MOST) tail.lastElementChild.remove();
    };
    source.addEventListener("behind", (event) => {
      source.close();
      live.textContent = event.data;
    });
  };
  const turn = () => (document.hidden ? source?.close() : open());
  document.addEventListener("visibilitychange", turn); // a hidden tab would hold one of six connections
  if (!document.hidden) open();
}
