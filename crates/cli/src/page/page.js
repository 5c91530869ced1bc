// The report: which charts there are, and what is said above each.
"use strict";

const report = JSON.parse(document.getElementById("data").textContent);
const { buffer, drift, past, segments, damage } = report;

const STATES = [
  ["fresh", "fresh", "blue", 0],
  ["stale", "stale", "orange", 1],
  ["out_of_window", "out of window", "purple", 3],
  ["missing", "missing", "grey", 2],
  ["from_future", "from future", "green", 4],
];
const REASONS = [
  ["trained", "trained", "blue", 0],
  ["superseded", "superseded", "green", 1],
  ["stale", "stale", "orange", 3],
  ["evicted", "evicted", "purple", 2],
  ["rewound", "rewound", "red", 4],
  ["other", "other", "grey", 5],
  ["unknown", "unknown", "sky", 6],
];

/** Those of the series that have a value anywhere, or the first where none has. */
function used(series, bins, value) {
  const some = series.filter(([key]) => bins.some((bin) => value(bin, key) > 0));
  return some.length ? some : series.slice(0, 1);
}

const seriesOf = (list) => list.map(([, name, colour, pattern]) => ({ name, colour, pattern }));
const plural = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
const percent = (part, whole) => (whole > 0 ? `${Math.floor((100 * part) / whole)} %` : "–");

/** The name of a bin of whole numbers: `step 7`, `steps 8 to 15`. */
function span(from, width, noun) {
  return width === 1 ? `${noun} ${count(from)}` : `${noun}s ${count(from)} to ${count(from + width - 1)}`;
}

function whole({ width, bins }, noun, list, value) {
  const series = used(list, bins, value);
  return {
    width,
    series: seriesOf(series),
    bars: bins.map((bin) => ({ from: bin.from, name: span(bin.from, width, noun), values: series.map(([key]) => value(bin, key)) })),
    isWhole: true,
    isMiddle: width === 1,
    start: list === STATES || noun === "length" ? 0 : undefined,
  };
}

function section(id, question, answer, ...children) {
  return el("section", { id }, el("h2", {}, question), el("p", { class: "answer" }, answer), children);
}

function tiles() {
  const disk = segments.reduce((total, segment) => total + segment.bytes, 0);
  const list = buffer === null ? [["disk", "on disk", bytes(disk)]] : [
    ["live", "live rollouts", count(buffer.live)],
    ["fresh", "fresh", count(buffer.fresh)],
    ["stale", "stale", count(buffer.stale)],
    ["out-of-window", "out of window", count(buffer.out_of_window)],
    ["missing", "missing", count(buffer.missing)],
    ["tokens", "tokens", count(buffer.tokens)],
    ["served", "served fresh", percent(buffer.counters.served, buffer.counters.asked)],
    ["disk", "on disk", bytes(disk)],
  ];
  return el("dl", { class: "tiles" }, list.map(([id, name, value]) =>
    el("div", {}, el("dt", {}, name), el("dd", { id: `tile-${id}` }, value))));
}

function damaged() {
  if (!damage.length) return null;
  const rows = damage.map((one) => [one.file, count(one.offset), one.expected, one.found, one.rollouts.join(", ") || "–"]);
  const hidden = buffer === null
    ? "The store does not open, so nothing is said of live rollouts and their log-probs; the log is told as far as it can be read."
    : "What could not be read is left out of the figures below.";
  return el("section", { id: "damage", class: "notice" },
    el("h2", {}, `${plural(damage.length, "place")} could not be read`),
    el("p", {}, `${hidden} “rollstore verify” checks every byte; “rollstore repair” salvages what is whole.`),
    el("div", { class: "scroll", tabindex: 0 },
      rowsTable("Damaged places", ["file", "byte", "expected", "found", "rollouts"], rows, [0, 2, 3, 4])));
}

function staleness() {
  const wrong = [["stale", buffer.stale], ["out of window", buffer.out_of_window], ["missing", buffer.missing],
    ["from the future", buffer.from_future]].filter(([, number]) => number > 0).map(([name, number]) => `${count(number)} ${name}`);
  const answer = buffer.live === 0 ? "No rollout is live." : wrong.length === 0
    ? `All ${plural(buffer.live, "live rollout")} are fresh at step ${count(buffer.step)}.`
    : `${count(buffer.fresh)} of ${plural(buffer.live, "live rollout")} are fresh at step ${count(buffer.step)}; ${wrong.join(", ")}. ` +
      "A rollout may be several of these: it is drawn as the first of missing, stale, out of window.";
  const value = (bin, key) => bin[key];
  const mark = (at, name, { bins, width }) => {
    const last = bins.length ? bins[bins.length - 1].from + width : 0;
    return at + 1 <= Math.max(2 * last, 16) ? [{ at: at + 1, name }] : [];
  };
  const abandoned = buffer.abandoned ? ` ${plural(buffer.abandoned, "rollout")} of an abandoned version are not drawn.` : "";
  return section("staleness", "How stale is my buffer?", answer, el("div", { class: "charts" },
    chart({
      id: "ages", title: "Age", xLabel: "age in steps", yLabel: "rollouts", ...whole(buffer.ages, "age", STATES, value),
      marks: mark(buffer.window, `window ${count(buffer.window)}`, buffer.ages),
      caption: `Steps since old log-probs were born. Beyond the window, ${count(buffer.window)}, they are recomputed.`,
    }),
    chart({
      id: "lags", title: "Version lag", xLabel: "advances behind", yLabel: "rollouts", ...whole(buffer.lags, "lag", STATES, value),
      marks: mark(buffer.max_version_lag, `lag ${count(buffer.max_version_lag)}`, buffer.lags),
      caption: `Advances of the reference version since. Beyond ${count(buffer.max_version_lag)} they are stale.${abandoned}`,
    })));
}

/** What the log does not tell any more, in words. */
function gone() {
  if (past.is_complete || buffer === null) return "";
  const { inserted } = buffer.counters;
  return ` The log still tells of ${count(past.total.inserted)} of ${plural(inserted, "insert")} and ` +
    `${count(past.total.computed)} of ${plural(buffer.counters.computed, "recompute")}: ${damage.length ? "the rest is damaged, or was given back by compaction" : "compaction gave back the rest"}, so bars are lower bounds.`;
}

function recompute() {
  const { every, computed: fixed, worst } = past.schedule;
  const computed = buffer === null ? past.total.computed : buffer.counters.computed;
  const about = past.is_complete ? "about" : "at least";
  const unit = past.worst_steps === 1 ? "worst step" : `worst ${count(past.worst_steps)} steps`;
  const saved = fixed > 0 && computed <= fixed ? `: ${percent(fixed - computed, fixed)} saved` : "";
  const answer = `The store computed ${plural(computed, "rollout")}; computing all that was live at every ${ordinal(every)} version would have ` +
    `computed ${about} ${count(fixed)}${saved}. ${unit[0].toUpperCase()}${unit.slice(1)}: ${count(past.worst_computed)} instead of ${count(worst)}.`;
  const list = [["computed", "computed", "blue", 0], ["scheduled", "static schedule (estimate)", "grey", 4]];
  const drawn = whole(past.steps, "step", list, (bin, key) => bin[key]);
  const rows = [["rollouts computed", count(fixed), count(computed), percent(fixed - computed, fixed)],
    [`${unit}, rollouts`, count(worst), count(past.worst_computed), percent(worst - past.worst_computed, worst)]];
  return section("recompute", "What was recomputed, and what did that save?", answer, chart({
    id: "computed", title: "Old log-probs computed, by step", xLabel: "step", yLabel: "rollouts", isBeside: true, ...drawn,
    series: seriesOf(list),
    bars: past.steps.bins.map((bin) => ({ from: bin.from, name: span(bin.from, past.steps.width, "step"), values: [bin.computed, bin.scheduled] })),
    caption: `The static schedule is an estimate: all rollouts that the log shows live, each time a version divides by ${count(every)}, ` +
      `which is min(window, lag) + 1 and bounds ages likewise.${gone()}`,
  }), el("div", { class: "scroll" }, rowsTable("", ["", `static, every ${count(every)} (estimate)`, "rollstore", "saved"], rows, [0])));
}

function ordinal(number) {
  const ends = { 1: "st", 2: "nd", 3: "rd" };
  const tens = number % 100;
  return `${count(number)}${(tens > 10 && tens < 14 ? "" : ends[number % 10]) || "th"}`;
}

function ends() {
  const all = buffer === null ? past.total.retired : buffer.counters.retired;
  const told = REASONS.filter(([key]) => all[key] > 0).map(([key, name]) => `${count(all[key])} ${name}`);
  const total = sum(Object.values(all));
  const unused = !buffer?.counters.retired_unused ? "" : ` ${count(buffer.counters.retired_unused)} of them were never asked for.`;
  const answer = total === 0 ? "No rollout has left the buffer." : `${plural(total, "rollout")} left the buffer: ${told.join(", ")}.${unused}`;
  return section("ends", "Why did rollouts leave?", answer, chart({
    id: "retired", title: "Rollouts that ended, by step and reason", xLabel: "step", yLabel: "rollouts",
    ...whole(past.steps, "step", REASONS, (bin, key) => bin.retired[key] ?? 0),
    caption: `A retirement does not name a step: it stands at the newest one that the log had named before it.${gone()}`,
  }));
}

function differences() {
  const { width, bins } = drift.differences;
  const nats = (number) => `${real(number)} nats`;
  const aside = [[drift.not_reported, "without a value of the sampler"], [drift.infinite, "with an infinite difference"],
    [drift.masked, "left out by the loss mask"]].filter(([number]) => number > 0).map(([number, what]) => `${count(number)} ${what}`);
  const answer = drift.tokens === 0 ? "No live rollout has log-probs of both." :
    `Over ${plural(drift.tokens, "token")} of ${plural(drift.rollouts, "rollout")}, old and sampler log-probs differ by ` +
    `${nats(drift.mean_absolute)} on average; the mean, ${nats(drift.mean)}, is their bias.`;
  const rest = aside.length ? ` Not drawn: ${aside.join(", ")}.` : "";
  const worst = drift.worst.map((rollout) => [
    el("a", { href: `#tokens-${rollout.id}` }, rollout.id), rollout.key ?? "–", count(rollout.token_count), count(rollout.at),
    value(rollout.difference), value(rollout.ratios[rollout.at - rollout.first]), count(rollout.ref_version)]);
  return section("drift", "How far are trainer and sampler apart?", answer, chart({
    id: "differences", title: "Old minus sampler log-prob, by token", xLabel: "difference in nats", yLabel: "tokens, powers of ten", isLog: true,
    width, series: [{ name: "tokens", colour: "blue", pattern: 0 }], place: real, marks: bins.length ? [{ at: 0, name: "equal" }] : [],
    bars: bins.map((bin) => ({ from: bin.from, name: `${real(bin.from)} to ${nats(bin.from + width)}`, values: [bin.count] })),
    caption: `Live rollouts, tokens that the loss mask leaves in.${rest}`,
  }), worst.length === 0 ? null : [
    el("div", { class: "scroll", tabindex: 0 }, rowsTable("The rollouts with the greatest difference of a token",
      ["rollout", "key", "tokens", "at", "difference", "ratio", "version"], worst, [1])),
    drift.worst.map(tokens)]);
}

/** A number of JSON as it was written there: NaN and the infinities are text already. */
const value = (number) => (number === undefined ? "–" : String(number));

function tokens(rollout) {
  const shown = rollout.old_logps.map((_, at) => {
    const cells = [count(rollout.first + at), value(rollout.token_ids[at]), value(rollout.old_logps[at]), value(rollout.sampler_logps[at]),
      value(rollout.differences[at]), value(rollout.ratios[at]), value(rollout.loss_mask[at])].map((cell) => el("td", {}, cell));
    return el("tr", rollout.first + at === rollout.at ? { class: "most", title: "the greatest difference" } : {}, cells);
  });
  const range = shown.length < rollout.token_count ? `, places ${count(rollout.first)} to ${count(rollout.first + shown.length - 1)}` : "";
  const body = rowsTable(`${plural(rollout.token_count, "completion token")}${range}; the one that differs most, at ${count(rollout.at)}, is set in bold`,
    ["place", "token", "old", "sampler", "difference", "ratio", "mask"], shown);
  return fill(folded(`Tokens of rollout ${rollout.id}`, body), { id: `tokens-${rollout.id}` }, []);
}

function lengths() {
  const mean = buffer.live ? ` ${count(Math.round(buffer.tokens / buffer.live))} on average` : "";
  const list = [["count", "rollouts", "blue", 0]];
  return section("length", "How long are rollouts?", `${plural(buffer.tokens, "token")}, prompt and completion,${mean || " in all"}.`, chart({
    id: "lengths", title: "Length", xLabel: "tokens", yLabel: "rollouts", caption: "Prompt and completion tokens of live rollouts.",
    ...whole(buffer.lengths, "length", list, (bin, key) => bin[key]),
  }));
}

function disk() {
  const BARS = 120;
  const together = Math.max(1, Math.ceil(segments.length / BARS));
  const list = [{ name: "live", colour: "blue", pattern: 0 }, { name: "dead", colour: "orange", pattern: 1 }, { name: "not known", colour: "grey", pattern: 2 }];
  const bars = [];
  for (let at = 0; at < segments.length; at += together) {
    const part = segments.slice(at, at + together);
    const total = (key) => sum(part.map((segment) => segment[key] ?? 0));
    const [live, dead] = [total("live_bytes"), total("dead_bytes")];
    const [first, last] = [part[0].id, part[part.length - 1].id];
    const name = part.length === 1 ? `segment ${first}, ${part[0].state}` : `segments ${first} to ${last}`;
    bars.push({ from: at, name, values: [live, dead, Math.max(0, total("bytes") - live - dead)] });
  }
  const all = (key) => sum(segments.map((segment) => segment[key] ?? 0));
  const dead = all("dead_bytes");
  const rest = buffer === null ? "What of it is alive is not known, since the store does not open." :
    `${bytes(all("live_bytes"))} are alive; ${bytes(dead)} are dead, which compaction can give back.`;
  const series = bars.some((bar) => bar.values[2] > 8192) ? list : list.slice(0, 2);
  const rows = segments.slice(0, 500).map((one) => [one.id, one.state, count(one.frames), bytes(one.bytes),
    one.live_bytes === null ? "–" : bytes(one.live_bytes), one.dead_bytes === null ? "–" : bytes(one.dead_bytes)]);
  return section("disk", "Where is the disk space?", `${bytes(all("bytes"))} in ${plural(segments.length, "segment")}. ${rest}`, chart({
    id: "segments", title: "Segments, oldest number first", xLabel: "segment", yLabel: "bytes", width: together, series,
    bars: bars.map((bar) => ({ ...bar, values: bar.values.slice(0, series.length) })), words: bytes, isMiddle: together === 1, isWhole: true,
    place: (at) => (segments[at] ? String(segments[at].id) : ""), levels: byteTicks,
    caption: "Bytes of frames that readers may come to, and of those that nobody comes to any more.",
  }), folded("Segments", rowsTable(segments.length > 500 ? `The first 500 of ${count(segments.length)} segments` : "Segments",
    ["segment", "state", "frames", "size", "live", "dead"], rows, [1])));
}

/** Round sizes: by powers of two. */
function byteTicks(from, to) {
  const step = Math.max(1, 2 ** Math.ceil(Math.log2(to / 4)));
  return Array.from({ length: Math.floor(to / step) + 1 }, (_, at) => at * step);
}

function begin() {
  document.title = `rollstore report: ${report.store}`;
  document.getElementById("name").textContent = report.store;
  document.getElementById("asked").textContent = buffer === null ? "The store does not open." :
    `${buffer.clock === null ? `step ${count(buffer.step)}, the newest born, since the trainer has not acted yet` : `step ${count(buffer.step)}`}, ` +
    `window ${count(buffer.window)}, lag ${count(buffer.max_version_lag)}; reference version ${count(buffer.ref_version)}, ` +
    `KL reference ${count(buffer.kl_ref_version)}; up to LSN ${buffer.last_lsn}`;
  const parts = [damaged(), tiles(), buffer && staleness(), recompute(), ends(), drift && differences(), buffer && lengths(), disk()];
  document.getElementById("main").append(...parts.filter((part) => part));
}

/** A link to a folded table opens it. */
function unfold() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target instanceof HTMLDetailsElement) {
    target.open = true;
    target.scrollIntoView();
  }
}

function theme() {
  const button = document.getElementById("theme");
  const isDark = () => (document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const name = () => { button.textContent = isDark() ? "Light" : "Dark"; };
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    name();
  });
  name();
}

begin();
theme();
addEventListener("hashchange", unfold);
unfold();
