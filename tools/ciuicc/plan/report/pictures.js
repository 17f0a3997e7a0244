// Pictures: each has a canvas and a copy without the cursor.
const left = 74, right = 14;
const charts = [];
function addChart(caption, note, height, draw, hover) {
  const canvas = element("canvas", {tabindex: "0", role: "img"});
  const text = element("figcaption", {}, caption + " ", element("span", {}, note));
  $("charts").append(element("figure", {}, text, canvas));
  const chart = {canvas, height, draw, hover, base: document.createElement("canvas")};
  charts.push(chart);
  listen(chart);
  return chart;
}

const span = () => view.to - view.from;
// Zooming in ends here, in microseconds.
const leastSpan = 2;
const xOf = (chart, t) =>
  left + (t - view.from) / span() * (chart.width - left - right);
const tOf = (chart, x) =>
  view.from + (x - left) / (chart.width - left - right) * span();

function pen(chart) {
  const ratio = window.devicePixelRatio || 1;
  chart.width = chart.canvas.clientWidth || 800;
  for (const c of [chart.canvas, chart.base]) {
    c.width = Math.round(chart.width * ratio);
    c.height = Math.round(chart.height * ratio);
  }
  chart.canvas.style.height = chart.height + "px";
  const g = chart.base.getContext("2d");
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.font = "12px system-ui, 'DejaVu Sans', sans-serif";
  g.textBaseline = "middle";
  return g;
}

function clip(g, chart, top, bottom) {
  g.save();
  g.beginPath();
  g.rect(left, top, chart.width - left - right, bottom - top);
  g.clip();
}

/// The programs as bands behind everything, with their names if `named`.
function drawBands(g, chart, top, bottom, named) {
  clip(g, chart, 0, chart.height);
  programs.forEach((p, i) => {
    const a = xOf(chart, p.start), b = xOf(chart, p.end);
    g.fillStyle = color(i % 2 ? "band" : "card");
    g.fillRect(a, top, b - a, bottom - top);
    g.fillStyle = color("line");
    g.fillRect(Math.round(b) - 1, top, 1, bottom - top);
    const from = Math.max(a, left), to = Math.min(b, chart.width - right);
    if (!named || to - from < 30) return;
    g.save();
    g.beginPath();
    g.rect(from, 0, to - from, top);
    g.clip();
    g.fillStyle = color("soft");
    g.textAlign = "left";
    g.fillText(p.name, from + 5, top - 9);
    g.restore();
  });
  g.restore();
}

function ticks(low, high, count) {
  const step0 = (high - low) / count;
  if (!(step0 > 0)) return [];
  const power = 10 ** Math.floor(Math.log10(step0));
  const step = power * [1, 2, 5, 10].find(m => m * power >= step0);
  const list = [];
  for (let v = Math.ceil(low / step) * step; v <= high; v += step) list.push(v);
  return list;
}

/// Bytes of an arena over the step.
function drawArena(arena) {
  return function(g, chart) {
    const top = 20, bottom = chart.height - 8;
    const low = view.states ? 0 : Math.min(arena.lasting, arena.bytes);
    let high = Math.max(arena.bytes, arena.peak.bytes, low + 1);
    const limit = arena.limit;
    if (limit && limit > low && limit < low + (high - low) * 1.8) high = Math.max(high, limit);
    // Room for the words above the topmost line.
    high += (high - low) * 22 / (bottom - top);
    const y = bytes => bottom - (bytes - low) / (high - low) * (bottom - top);
    chart.y = y;
    drawBands(g, chart, top, bottom, true);
    g.textAlign = "right";
    for (const v of ticks(low, high, chart.height / 55)) {
      g.fillStyle = color("grid");
      g.fillRect(left, Math.round(y(v)), chart.width - left - right, 1);
      g.fillStyle = color("soft");
      g.fillText(bytesText(v), left - 8, y(v));
    }
    clip(g, chart, top, bottom);
    if (view.kind === "stacked") drawStacked(g, chart, arena, low, y);
    else drawAddresses(g, chart, arena, y);
    g.restore();
    drawLevel(g, chart, y(arena.bytes), "arena " + bytesText(arena.bytes), "ink", []);
    if (limit && limit <= high && limit > low)
      drawLevel(g, chart, y(limit), "limit " + bytesText(limit), "mark", [6, 4]);
    drawPeak(g, chart, arena, y, top);
  };
}

function drawLevel(g, chart, y, text, ink, dash) {
  g.strokeStyle = color(ink);
  g.setLineDash(dash);
  g.beginPath();
  g.moveTo(left, Math.round(y) + .5);
  g.lineTo(chart.width - right, Math.round(y) + .5);
  g.stroke();
  g.setLineDash([]);
  g.textAlign = "right";
  label(g, text, chart.width - right - 5, y - 9, ink);
}

function label(g, text, x, y, ink) {
  g.lineWidth = 3;
  g.lineJoin = "round";
  g.strokeStyle = color("card");
  g.strokeText(text, x, y);
  g.lineWidth = 1;
  g.fillStyle = color(ink);
  g.fillText(text, x, y);
}

function drawPeak(g, chart, arena, y, top) {
  const x = xOf(chart, arena.peak.us);
  if (x < left || x > chart.width - right || !arena.peak.bytes) return;
  g.strokeStyle = color("mark");
  g.setLineDash([3, 3]);
  g.beginPath();
  g.moveTo(x, top);
  g.lineTo(x, chart.height - 8);
  g.stroke();
  g.setLineDash([]);
  const near = x > chart.width * .7;
  g.textAlign = near ? "right" : "left";
  const stacked = view.kind === "stacked";
  label(g, "peak " + bytesText(arena.peak.bytes), x + (near ? -9 : 9),
        stacked ? y(arena.peak.bytes) + 14 : chart.height - 20, "mark");
  if (!stacked) return; // Addresses are not amounts.
  g.fillStyle = color("mark");
  g.beginPath();
  g.arc(x, y(arena.peak.bytes), 4, 0, 7);
  g.fill();
}

/// What is held over time; where a pixel is several moments wide, the one with
/// most.
function drawStacked(g, chart, arena, low, y) {
  const colors = groups.map(group => color(group.key));
  for (let x = left; x < chart.width - right; ++x) {
    const from = tOf(chart, x), to = Math.min(tOf(chart, x + 1), total);
    if (from >= to) continue;
    let most = momentOf(Math.max(from, 0));
    for (let m = most + 1; m < moments.length && moments[m] < to; ++m)
      if (arena.sum[m] > arena.sum[most]) most = m;
    let held = 0;
    groups.forEach((group, i) => {
      const bytes = arena.held[i][most];
      if (bytes > 0) {
        const top = y(held + bytes), bottom = y(Math.max(held, low));
        g.fillStyle = colors[i];
        if (bottom > top) g.fillRect(x, top, 1, bottom - top);
        held += bytes;
      }
    });
  }
}

const matches = name =>
  view.match !== "" && name.toLowerCase().includes(view.match);

/// Where each buffer lies and how long.
function drawAddresses(g, chart, arena, y) {
  const colors = groups.map(group => color(group.key));
  for (const b of buffers) {
    if (b.arena !== arena.number) continue;
    const a = xOf(chart, b.from), e = xOf(chart, b.to);
    if (e < left || a > chart.width - right) continue;
    const top = y(b.offset + b.bytes), bottom = y(b.offset);
    const w = Math.max(e - a, 1), h = Math.max(bottom - top, .5);
    g.globalAlpha = view.match === "" || matches(b.name) ? 1 : .18;
    g.fillStyle = colors[b.group];
    g.fillRect(a, top, w, h);
    if (h > 3 && w > 3) {
      g.strokeStyle = color("card");
      g.lineWidth = .6;
      g.strokeRect(a + .3, top + .3, w - .6, h - .6);
    }
    if (h > 15 && w > 90) {
      g.save();
      g.beginPath();
      g.rect(a, top, w - 4, h);
      g.clip();
      g.fillStyle = "#fff";
      g.textAlign = "left";
      g.shadowColor = "rgb(0 0 0 / 70%)";
      g.shadowBlur = 3;
      g.fillText(shortName(b), Math.max(a, left) + 6, (top + bottom) / 2);
      g.restore();
    }
  }
  g.globalAlpha = 1;
  g.lineWidth = 1;
}

/// A lane a stream, a mark a task.
function drawSchedule(g, chart) {
  const top = 20, lane = 26, foot = 24;
  const bottom = top + lane * plan.streams.length;
  drawBands(g, chart, top, bottom, true);
  g.textAlign = "right";
  plan.streams.forEach((stream, i) => {
    g.fillStyle = color("soft");
    g.fillText(stream, left - 8, top + lane * (i + .5));
    g.fillStyle = color("grid");
    g.fillRect(left, top + lane * (i + 1) - 1, chart.width - left - right, 1);
  });
  const colors = work.map(w => color(w.key));
  clip(g, chart, top, bottom);
  for (const task of tasks) {
    if (task.to < view.from || task.from > view.to) continue;
    const a = xOf(chart, task.from), w = Math.max(xOf(chart, task.to) - a, .5);
    g.globalAlpha = view.match === "" || matches(task.name) ? 1 : .15;
    g.fillStyle = colors[workOf.get(task.kind) ?? 5];
    g.fillRect(a, top + lane * task.lane + 4, w > 4 ? w - 1 : w, lane - 9);
    if (w > 70) {
      g.save();
      g.beginPath();
      g.rect(a, top, w - 4, bottom);
      g.clip();
      g.fillStyle = "#fff";
      g.textAlign = "left";
      g.fillText(task.name, Math.max(a, left) + 4, top + lane * (task.lane + .5));
      g.restore();
    }
  }
  g.globalAlpha = 1;
  g.restore();
  g.fillStyle = color("soft");
  g.textAlign = "center";
  for (const us of ticks(view.from, view.to, 8)) {
    const x = xOf(chart, us);
    g.fillRect(x, bottom, 1, 4);
    g.fillText(timeText(us), Math.min(x, chart.width - right - 18), bottom + 13);
  }
}

/// The cursor, the waits of its task, and the buffer under it.
function drawCursor(chart, g) {
  const place = view.at ?? view.pinned;
  if (place === null) return;
  const x = xOf(chart, place.us);
  if (x < left || x > chart.width - right) return;
  g.strokeStyle = color("ink");
  g.globalAlpha = .55;
  g.beginPath();
  g.moveTo(x, 18);
  g.lineTo(x, chart.height - 6);
  g.stroke();
  g.globalAlpha = 1;
  if (chart.isSchedule) {
    // What the task waits for: from its end to the task's start.
    const task = tasks[place.task];
    const middle = lane => 20 + 26 * (lane + .5);
    g.strokeStyle = color("mark");
    for (const wait of task.waits) {
      const earlier = tasks[task.program.first + wait];
      g.beginPath();
      g.moveTo(xOf(chart, earlier.to), middle(earlier.lane));
      g.lineTo(xOf(chart, task.from), middle(task.lane));
      g.stroke();
    }
  }
  if (chart.under) {
    const b = chart.under;
    g.strokeStyle = color("ink");
    g.lineWidth = 2;
    const a = Math.max(xOf(chart, b.from), left);
    const e = Math.min(xOf(chart, b.to), chart.width - right);
    g.strokeRect(a, chart.y(b.offset + b.bytes), Math.max(e - a, 2),
                 Math.max(chart.y(b.offset) - chart.y(b.offset + b.bytes), 2));
    g.lineWidth = 1;
  }
}

function show(chart) {
  const ratio = window.devicePixelRatio || 1;
  const g = chart.canvas.getContext("2d");
  g.setTransform(1, 0, 0, 1, 0, 0);
  g.clearRect(0, 0, chart.canvas.width, chart.canvas.height);
  g.drawImage(chart.base, 0, 0);
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  drawCursor(chart, g);
}

function draw() {
  for (const chart of charts) {
    chart.draw(pen(chart), chart);
    show(chart);
  }
}
function drawCursors() { charts.forEach(show); }
