// Tables of what is live.
function holderRows(list, most, withLife) {
  const table = element("table");
  for (const b of list.slice(0, most))
    table.append(element("tr", {}, element("td", {},
        element("i", {color: color(groups[b.group].key)}), ...breakable(shortName(b))),
      element("td", {}, bytesText(b.bytes)),
      ...(withLife ? [element("td", {class: "dim"}, b.lasting ? "always"
        : b.first + "–" + b.last)] : [])));
  const rest = list.slice(most).reduce((sum, b) => sum + b.bytes, 0);
  if (list.length > most)
    table.append(element("tr", {class: "dim"},
      element("td", {}, (list.length - most) + " more"),
      element("td", {}, bytesText(rest))));
  return table;
}
/// A long name may go on in the next line after a dot.
function breakable(name) {
  return name.split(/(?<=\.)/).flatMap(part => [part, element("wbr")]);
}
/// "12 to 15 ms", in the task's program.
const spanText = task => `${timeText(task.from - task.program.start)} to `
  + timeText(task.to - task.program.start);

function fillPanel() {
  const panel = $("panel");
  const place = view.pinned ?? view.at ?? arenas[0].peak.place;
  panel.replaceChildren();
  if (!place) return;
  const task = tasks[place.task], moment = momentOf(place.us);
  panel.append(
    element("h2", {}, task.name || "(no name)"),
    element("div", {class: "dim"}, `${task.kind} on ${task.stream}, task `
      + `${task.number} of ${task.program.name}: ${spanText(task)}`));
  for (const arena of arenas) {
    if (!arena.bytes) continue;
    const live = liveAt(place.us, arena);
    const own = live.filter(b => !b.lasting);
    panel.append(element("h3", {}, `${arena.name}: ${bytesText(arena.sum[moment])} live`));
    if (own.length) panel.append(holderRows(own, 24, true));
    panel.append(element("h3", {class: "dim"},
      `held all the time: ${bytesText(arena.lasting)}`));
    const sums = groups.map((g, i) => ({name: g.label, group: i, lasting: true,
      bytes: live.filter(b => b.lasting && b.group === i)
                 .reduce((sum, b) => sum + b.bytes, 0)})).filter(s => s.bytes);
    panel.append(holderRows(sums, 9, false));
  }
  panel.append(element("p", {class: "dim"}, view.pinned === null
    ? "Click to keep a task here." : "Click again, or press Escape, to let go."));
}

function fillTip(chart, event, place) {
  const task = tasks[place.task], tip = $("tip");
  tip.replaceChildren(element("b", {}, task.name || "(no name)"),
    element("div", {class: "dim"},
      `${task.kind} on ${task.stream}, task ${task.number} of `
      + `${task.program.name}: ${spanText(task)}`));
  if (chart.under)
    tip.append(element("div", {}, chart.under.name + ": "
      + bytesText(chart.under.bytes) + " at " + countText(chart.under.offset)));
  if (chart.arena)
    tip.append(element("div", {}, `${bytesText(chart.arena.sum[momentOf(place.us)])} live`),
      holderRows(liveAt(place.us, chart.arena).filter(b => !b.lasting), 8, false));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const x = event.clientX + 16, y = event.clientY + 16;
  tip.style.left = Math.max(4, x + box.width > innerWidth
    ? event.clientX - box.width - 12 : x) + "px";
  tip.style.top = Math.max(4, Math.min(y, innerHeight - box.height - 8)) + "px";
}

// Zooming, moving, pointing.
function zoom(factor, about) {
  const size = Math.min(Math.max(span() * factor, leastSpan), longest());
  const share = (about - view.from) / span();
  setRange(about - share * size, size);
}
function setRange(from, size) {
  view.from = Math.max(0, Math.min(from, longest() - size));
  view.to = view.from + size;
  draw();
}
function pin(place) {
  view.pinned = place;
  fillPanel();
  drawCursors();
}
function showPlace(place) {
  if (!place) return;
  if (place.us < view.from || place.us >= view.to)
    setRange(place.us - span() / 2, span());
  pin(place);
}
function showTask(t) {
  if (t >= 0 && t < tasks.length) showPlace(placeOf(t));
}

function listen(chart) {
  let drag = null, moved = false;
  const canvas = chart.canvas;
  const point = event => {
    const us = tOf(chart, event.offsetX);
    if (us < 0 || us >= total) return null;
    const lane = Math.floor((event.offsetY - 20) / 26);
    return chart.isSchedule && lane >= 0 && lane < plan.streams.length
      ? placeAt(us, lane) ?? placeAt(us) : placeAt(us);
  };
  canvas.addEventListener("wheel", event => {
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY))
      setRange(view.from + event.deltaX / chart.width * span(), span());
    else
      zoom(Math.exp(event.deltaY * .0016), tOf(chart, event.offsetX));
  }, {passive: false});
  canvas.addEventListener("pointerdown", event => {
    drag = {x: event.offsetX, from: view.from};
    moved = false;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", event => {
    if (drag && Math.abs(event.offsetX - drag.x) > 3) moved = true;
    if (drag && moved) {
      setRange(drag.from - (event.offsetX - drag.x) / (chart.width - left - right) * span(),
               span());
      return;
    }
    view.at = point(event);
    chart.under = null;
    if (view.at !== null && chart.arena && view.kind === "addresses")
      chart.under = buffers.find(b => b.arena === chart.arena.number
        && (b.lasting || b.from <= view.at.us && view.at.us < b.to)
        && chart.y(b.offset + b.bytes) <= event.offsetY
        && event.offsetY <= chart.y(b.offset)) || null;
    if (view.at === null) $("tip").hidden = true;
    else fillTip(chart, event, view.at);
    if (view.pinned === null) fillPanel();
    drawCursors();
  });
  canvas.addEventListener("pointerup", event => {
    const place = point(event);
    if (!moved && place !== null)
      pin(view.pinned && view.pinned.task === place.task ? null : place);
    drag = null;
  });
  canvas.addEventListener("pointerleave", () => {
    view.at = chart.under = null;
    $("tip").hidden = true;
    if (view.pinned === null) fillPanel();
    drawCursors();
  });
  canvas.addEventListener("dblclick", () => setRange(0, longest()));
  canvas.addEventListener("keydown", event => {
    const place = view.pinned ?? arenas[0].peak.place;
    if (!place) return;
    const step = event.shiftKey ? 20 : 1;
    if (event.key === "ArrowRight") showTask(Math.min(tasks.length - 1, place.task + step));
    else if (event.key === "ArrowLeft") showTask(Math.max(0, place.task - step));
    else if (event.key === "+") zoom(.6, place.us);
    else if (event.key === "-") zoom(1 / .6, place.us);
    else if (event.key === "Escape") pin(null);
    else return;
    event.preventDefault();
  });
}

// The words around the pictures.
function card(title, big, text, share) {
  const meter = element("div", {class: "meter" + (share > 1 ? " over" : "")},
                        element("i"));
  if (share !== undefined)
    meter.firstChild.style.width = Math.min(100, 100 * share).toFixed(1) + "%";
  return element("div", {class: "card"}, element("h2", {}, title),
    element("div", {class: "big"}, big),
    ...(share === undefined ? [] : [meter]), element("p", {}, text));
}

function fillWords() {
  document.title = plan.model + ": memory plan";
  $("title").textContent = plan.model;
  $("facts").textContent = plan.facts;
  $("cards").replaceChildren();
  for (const arena of arenas) {
    if (!arena.bytes && arena.number) continue;
    const who = ["memory of each device", `host memory of each of ${plan.ranks} ranks`,
                 `files of each of ${plan.ranks} ranks`][arena.number];
    $("cards").append(card(who, bytesText(arena.bytes),
      arena.limit ? `of ${bytesText(arena.limit)} (${countText(arena.bytes)} bytes)`
                  : `${countText(arena.bytes)} bytes; no limit given`,
      arena.limit ? arena.bytes / arena.limit : undefined));
  }
  $("cards").append(card("a step", timeText(plan.step_us),
    `estimated, of ${plan.micro_steps} micro-step`
    + (plan.micro_steps === 1 ? "" : "s")));
  const device = arenas[0];
  const peak = device.peak.place ? tasks[device.peak.place.task] : null;
  $("cards").append(card("the peak of a device", bytesText(device.peak.bytes),
    peak ? `at ${peak.name}, task ${peak.number} of ${peak.program.name}` : "no tasks"));
  $("cards").append(card("held all the time", bytesText(device.lasting),
    `${(100 * device.lasting / Math.max(1, device.bytes)).toFixed(0)} % of the arena`,
    device.lasting / Math.max(1, device.bytes)));
  const lost = device.bytes - device.live_bound;
  $("cards").append(card("lost to fragmentation",
    (100 * lost / Math.max(1, device.live_bound)).toFixed(2) + " %",
    `${device.live_bound_exact ? "" : "at most "}${countText(lost)} bytes above `
    + `the ${bytesText(device.live_bound)} that may be live at once`));
}

function fillLegend() {
  const used = new Set(buffers.map(b => b.group));
  const kinds = new Set();
  for (const task of tasks) kinds.add(workOf.get(task.kind) ?? 5);
  const entry = (key, label) => element("li", {},
    element("i", {color: color(key)}), label);
  $("legend").replaceChildren(
    ...groups.filter((g, i) => used.has(i) && (view.states || !g.lasting))
             .map(g => entry(g.key, g.label)));
  charts.forEach(chart => {
    if (!chart.isSchedule) return;
    const words = chart.canvas.parentElement.querySelector("span");
    words.replaceChildren();
    work.forEach((w, i) => {
      if (!kinds.has(i)) return;
      const mark = element("i", {color: color(w.key)});
      mark.style.cssText += ";display:inline-block;width:10px;height:10px;"
        + "border-radius:3px;margin:0 5px 0 14px";
      words.append(element("span", {class: "nowrap"}, mark, w.label), " ");
    });
  });
}

function fillNotes() {
  const table = element("table", {}, element("tr", {},
    ...["program", "arena", "peak", "at task", "which is"].map(h => element("th", {}, h))));
  for (const p of programs)
    for (const arena of arenas) {
      const peak = peakOf(arena, p.start, p.end);
      if (!arena.bytes || p.first === p.last) continue;
      const task = tasks[peak.place.task];
      table.append(element("tr", {}, element("td", {}, p.name),
        element("td", {}, arena.name),
        element("td", {class: "n"}, bytesText(peak.bytes)),
        element("td", {class: "n"}, String(task.number)),
        element("td", {}, task.name)));
    }
  const times = element("table", {}, element("tr", {},
    ...["program", "time", "streams at work"].map(h => element("th", {}, h))));
  for (const p of programs) {
    const busy = plan.streams.map(() => 0);
    for (const task of tasks.slice(p.first, p.last)) busy[task.lane] += task.to - task.from;
    const length = p.end - p.start;
    times.append(element("tr", {}, element("td", {}, p.name),
      element("td", {class: "n"}, timeText(length)),
      element("td", {}, plan.streams
        .map((stream, i) => `${stream} ${(100 * busy[i] / Math.max(length, 1e-9)).toFixed(1)} %`)
        .filter((text, i) => busy[i] > 0).join(", "))));
  }
  $("notes").replaceChildren(element("h2", {}, "Peaks"), table,
    element("h2", {}, "Time"), times,
    element("h2", {}, "Reading this"),
    element("p", {}, "The axis is time, as estimated from the rates of the "
      + "machine that the plan is for. The arena is large enough for every "
      + "timing that the events allow, which may be more than is live at any "
      + "time here. Where a pixel is wide, the moment with most is drawn. "
      + "Wheel or + and − zoom, dragging moves, a double click shows all, a "
      + "click keeps a task in the panel, arrow keys go from task to task."));
}

function refresh() {
  for (const button of document.querySelectorAll("[data-view]"))
    button.setAttribute("aria-checked", String(button.dataset.view === view.kind));
  fillLegend();
  fillPanel();
  draw();
}

function find(text) {
  view.match = text.trim().toLowerCase();
  let count = 0, first = null;
  if (view.match !== "") {
    tasks.forEach((task, t) => {
      if (!matches(task.name)) return;
      ++count;
      if (first === null) first = t;
    });
    $("found").textContent = `${count} tasks, `
      + `${buffers.filter(b => matches(b.name)).length} buffers`;
    if (first !== null) showTask(first);
  } else {
    $("found").textContent = "";
  }
  draw();
}

function start() {
  const words = new Map(location.hash.slice(1).split("&").map(w => w.split("=")));
  if (["light", "dark"].includes(words.get("theme")))
    document.documentElement.dataset.theme = words.get("theme");
  if (words.get("view") === "addresses") view.kind = "addresses";
  if (words.get("states") === "0") view.states = $("states").checked = false;
  arrange();
  for (const arena of arenas) {
    // What is in files is there all the time: its card says all of it.
    if (!arena.bytes && arena.number || arena.name === "nvme") continue;
    const chart = addChart(arena.number ? "Host memory of a rank" : "Memory of a device",
      "", arena.number ? 220 : 380, drawArena(arena));
    chart.arena = arena;
    chart.canvas.setAttribute("aria-label", `Memory of the ${arena.name} arena over `
      + `the time of a step; peak ${bytesText(arena.peak.bytes)}`);
  }
  const schedule = addChart("Schedule", "", 20 + 26 * plan.streams.length + 24, drawSchedule);
  schedule.isSchedule = true;
  schedule.canvas.setAttribute("aria-label", "Tasks of each stream over a step");
  fillWords();
  fillNotes();
  for (const button of document.querySelectorAll("[data-view]"))
    button.addEventListener("click", () => { view.kind = button.dataset.view; refresh(); });
  $("states").addEventListener("change", event => { view.states = event.target.checked; refresh(); });
  $("evaluation").addEventListener("change", event => {
    view.evaluation = event.target.checked;
    arrange();
    fillWords();
    fillNotes();
    refresh();
  });
  $("search").addEventListener("input", event => find(event.target.value));
  $("toPeak").addEventListener("click", () => showPlace(arenas[0].peak.place));
  $("in").addEventListener("click", () => zoom(.5, view.pinned?.us ?? (view.from + view.to) / 2));
  $("out").addEventListener("click", () => zoom(2, (view.from + view.to) / 2));
  $("reset").addEventListener("click", () => setRange(0, longest()));
  $("theme").addEventListener("click", () => {
    const dark = document.documentElement.dataset.theme
      ? document.documentElement.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.theme = dark ? "light" : "dark";
    refresh();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", refresh);
  addEventListener("resize", draw);
  addEventListener("keydown", event => { if (event.key === "Escape") pin(null); });
  refresh();
  if (words.has("from") && words.has("to"))
    setRange(Number(words.get("from")), Number(words.get("to")) - Number(words.get("from")));
  if (words.has("at")) showTask(Number(words.get("at")));
  if (words.has("find")) find(decodeURIComponent(words.get("find")));
  document.body.dataset.ready = "true";
  document.body.dataset.peak = String(arenas[0].peak.bytes);
  document.body.dataset.tasks = String(tasks.length);
}
start();
