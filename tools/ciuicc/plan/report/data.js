// What the page knows: its plan, laid out on one axis. All names in it are the
// user's: they become text nodes and canvas text, never markup.
const plan = JSON.parse(document.getElementById("plan").textContent);
const $ = id => document.getElementById(id);

// What buffers hold, from the bottom of the pile to its top: first what is
// held all the time.
const groups = [
  {key: "parameter", label: "parameters", lasting: true},
  {key: "master", label: "masters", lasting: true},
  {key: "moment", label: "optimizer moments", lasting: true},
  {key: "gradient", label: "gradients", lasting: true},
  {key: "other", label: "tables, inputs, scalars", lasting: true},
  {key: "gathered", label: "gathered parameters"},
  {key: "partial", label: "gradients before reduction"},
  {key: "reduced", label: "gradients after reduction"},
  {key: "activation", label: "activations and results"},
  {key: "scratch", label: "scratch"},
];
const groupOf = new Map([
  ["parameter", 0], ["master", 1], ["moment", 2], ["gradient", 3],
  ["gathered", 5], ["partial gradient", 6], ["reduced gradient", 7],
  ["activation", 8], ["scratch", 9],
]);
const work = [
  {key: "matrix", label: "matrix products", kinds: ["gemm"]},
  {key: "attention", label: "attention", kinds: ["attention", "attention_grad"]},
  {key: "collective", label: "collectives",
   kinds: ["all_gather", "reduce_scatter", "all_reduce"]},
  {key: "move", label: "copies", kinds: ["copy", "zero", "accumulate"]},
  {key: "update", label: "optimizer",
   kinds: ["adam", "sgd", "square_sum", "sum_slots", "grad_scale",
           "learning_rate", "advance", "update_loss_scale"]},
  {key: "pointwise", label: "all other kernels", kinds: []},
];
const workOf = new Map();
work.forEach((w, i) => w.kinds.forEach(kind => workOf.set(kind, i)));

// One axis for all, in microseconds: the programs of a step, one after the
// other, as long as the machine of the plan takes for them. What is live
// changes only at `moments`, where tasks start or end.
let programs, tasks, total, buffers, moments;
// A place on the axis is a task and a time in it: {task, us}.
const view = {from: 0, to: 1, kind: "stacked", states: true,
              evaluation: false, at: null, pinned: null, match: ""};

function bytesText(n) {
  for (const [unit, size] of [["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["kB", 1e3]])
    if (n >= size) return (n / size).toFixed(2) + " " + unit;
  return n + " B";
}
/// "12.3 ms"
function timeText(us) {
  for (const [unit, size] of [["s", 1e6], ["ms", 1e3]])
    if (Math.abs(us) >= size) return +(us / size).toPrecision(4) + " " + unit;
  return +us.toPrecision(4) + " µs";
}
const countText = n => n.toLocaleString("en");

function element(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes))
    if (key === "class") e.className = value;
    else if (key === "color") e.style.background = value;
    else e.setAttribute(key, value);
  e.append(...children);
  return e;
}
const color = key =>
  getComputedStyle(document.documentElement).getPropertyValue("--" + key).trim();

/// Lays the chosen programs out on the axis and adds up who holds what.
function arrange() {
  programs = plan.programs
    .map((p, number) => ({name: p.name, step: p.step, rows: p.tasks, number}))
    .filter(p => view.evaluation ? true : p.step);
  const programOf = new Map();
  total = 0;
  tasks = [];
  for (const p of programs) {
    p.start = total;
    p.first = tasks.length;
    programOf.set(p.number, p);
    for (const [name, kind, stream, waits, start, end] of p.rows) {
      tasks.push({program: p, number: tasks.length - p.first, name,
        kind: plan.kinds[kind], lane: stream, stream: plan.streams[stream],
        waits, from: p.start + start, to: p.start + end});
      total = Math.max(total, p.start + end);
    }
    p.end = total;
    p.last = tasks.length;
  }
  buffers = [];
  for (const [name, holds, arena, offset, bytes, program, first, last, from, to]
       of plan.buffers) {
    const group = program < 0 ? (groupOf.has(holds) && groupOf.get(holds) < 4
                                   ? groupOf.get(holds) : 4)
                              : groupOf.get(holds) >= 5 ? groupOf.get(holds) : 8;
    const p = programOf.get(program);
    if (program >= 0 && (!p || first < 0 || to < from)) continue;
    buffers.push({name, group, arena, offset, bytes, program, first, last,
      lasting: program < 0, from: p ? p.start + from : 0, to: p ? p.start + to : total});
  }
  moments = Float64Array.from(
    new Set([0, ...tasks.flatMap(task => [task.from, task.to])])).sort();
  for (const arena of arenas) addUp(arena);
  view.from = 0;
  view.to = longest();
  view.at = view.pinned = null;
}
const longest = () => Math.max(total, 1);

const arenas = plan.arenas.map((a, number) => ({...a, number}));

/// The last moment that is not after a time.
function momentOf(us) {
  let low = 0, high = moments.length;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (moments[middle] <= us) low = middle;
    else high = middle;
  }
  return low;
}

/// Bytes of each group from each moment to the next.
function addUp(arena) {
  const count = moments.length;
  const change = groups.map(() => new Float64Array(count + 1));
  arena.lasting = 0;
  for (const b of buffers) {
    if (b.arena !== arena.number) continue;
    change[b.group][momentOf(b.from)] += b.bytes;
    change[b.group][b.lasting ? count : momentOf(b.to)] -= b.bytes;
    if (b.lasting) arena.lasting += b.bytes;
  }
  for (const row of change)
    for (let m = 1; m <= count; ++m) row[m] += row[m - 1];
  arena.held = change;
  arena.sum = new Float64Array(count + 1);
  for (let m = 0; m < count; ++m)
    for (const row of change) arena.sum[m] += row[m];
  arena.peak = peakOf(arena, 0, total);
}

/// Where an arena holds most between two times.
function peakOf(arena, from, to) {
  let most = momentOf(from);
  for (let m = most; m < moments.length && moments[m] < to; ++m)
    if (arena.sum[m] > arena.sum[most]) most = m;
  const us = moments[most];
  return {us, bytes: tasks.length ? arena.sum[most] : arena.lasting,
          place: placeAt(us)};
}

/// The task that a time belongs to: what computes then, else what runs on
/// another stream, else what started last. Of one lane if it is given.
function placeAt(us, lane) {
  let best = null, rank = -1;
  for (let t = 0; t < tasks.length; ++t) {
    const task = tasks[t];
    if (task.from > us || lane !== undefined && task.lane !== lane) continue;
    const runs = us < task.to ? (task.stream === "compute" ? 2 : 1) : 0;
    if (best === null || runs > rank
        || runs === rank && task.from >= tasks[best].from) {
      best = t;
      rank = runs;
    }
  }
  return best === null ? null : {task: best, us};
}

/// A place at the start of a task.
const placeOf = t => ({task: t, us: tasks[t].from});

/// Without the program in front, which the place says already.
function shortName(b) {
  const p = b.lasting ? null : programs.find(p => p.number === b.program);
  return p && b.name.startsWith(p.name + ".") ? b.name.slice(p.name.length + 1)
                                               : b.name;
}

/// layers.2 before layers.10.
const collator = new Intl.Collator("en", {numeric: true});
function liveAt(us, arena) {
  return buffers
    .filter(b => b.arena === arena.number && (b.lasting || b.from <= us && us < b.to))
    .sort((a, b) => b.bytes - a.bytes || collator.compare(a.name, b.name));
}
