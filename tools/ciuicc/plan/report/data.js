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

// One axis for all: the tasks of the programs of a step, one after the other.
let programs, total, buffers;
const view = {from: 0, to: 1, kind: "stacked", states: true,
              evaluation: false, at: null, pinned: null, match: ""};

function bytesText(n) {
  for (const [unit, size] of [["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["kB", 1e3]])
    if (n >= size) return (n / size).toFixed(2) + " " + unit;
  return n + " B";
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
  const shown = plan.programs
    .map((p, number) => ({...p, number}))
    .filter(p => view.evaluation ? true : p.step);
  const start = new Map();
  total = 0;
  for (const p of shown) {
    p.start = total;
    start.set(p.number, total);
    total += p.tasks.length;
  }
  programs = shown;
  buffers = [];
  for (const [name, holds, arena, offset, bytes, program, first, last] of plan.buffers) {
    const group = program < 0 ? (groupOf.has(holds) && groupOf.get(holds) < 4
                                   ? groupOf.get(holds) : 4)
                              : groupOf.get(holds) >= 5 ? groupOf.get(holds) : 8;
    if (program >= 0 && (!start.has(program) || first < 0)) continue;
    buffers.push({name, group, arena, offset, bytes, program, lasting: program < 0,
      from: program < 0 ? 0 : start.get(program) + first,
      to: program < 0 ? total : start.get(program) + last + 1});
  }
  for (const arena of arenas) addUp(arena);
  view.from = 0;
  view.to = Math.max(total, 1);
  view.at = view.pinned = null;
}

const arenas = plan.arenas.map((a, number) => ({...a, number}));

function addUp(arena) {
  const change = groups.map(() => new Float64Array(total + 1));
  arena.lasting = 0;
  for (const b of buffers) {
    if (b.arena !== arena.number) continue;
    change[b.group][b.from] += b.bytes;
    change[b.group][b.to] -= b.bytes;
    if (b.lasting) arena.lasting += b.bytes;
  }
  for (const row of change)
    for (let t = 1; t <= total; ++t) row[t] += row[t - 1];
  arena.held = change;
  arena.sum = new Float64Array(total + 1);
  arena.peak = {task: 0, bytes: 0};
  for (let t = 0; t < total; ++t) {
    for (const row of change) arena.sum[t] += row[t];
    if (arena.sum[t] > arena.peak.bytes) arena.peak = {task: t, bytes: arena.sum[t]};
  }
  if (!total) arena.peak = {task: 0, bytes: arena.lasting};
}

function taskAt(t) {
  for (const p of programs)
    if (t >= p.start && t < p.start + p.tasks.length) {
      const [name, kind, stream, waits] = p.tasks[t - p.start];
      return {program: p, number: t - p.start, name, kind: plan.kinds[kind],
              stream: plan.streams[stream], waits};
    }
  return null;
}

/// Without the program in front, which the place says already.
function shortName(b) {
  const p = b.lasting ? null : programs.find(p => p.number === b.program);
  return p && b.name.startsWith(p.name + ".") ? b.name.slice(p.name.length + 1)
                                               : b.name;
}

/// layers.2 before layers.10.
const collator = new Intl.Collator("en", {numeric: true});
function liveAt(t, arena) {
  return buffers
    .filter(b => b.arena === arena.number && b.from <= t && t < b.to)
    .sort((a, b) => b.bytes - a.bytes || collator.compare(a.name, b.name));
}
