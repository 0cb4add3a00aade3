// The page's script: it unpacks the charts' numbers and draws them with uPlot over the SVGs that the page has without it.
// Names and texts come from measurements: they become text nodes, never markup.
(async () => {
'use strict';

// ---- words and scales: the same as in scale.go ----

const clamp = (v, a, b) => Math.max(a, Math.min(b, v));
const finite = Number.isFinite;

const prefixes = unit => {
  switch (unit) {
  case 'us': return [[1, 'µs'], [1e3, 'ms'], [1e6, 's']];
  case 'B': case 'B/s': return [[1, 'B'], [2 ** 10, 'KiB'], [2 ** 20, 'MiB'], [2 ** 30, 'GiB'], [2 ** 40, 'TiB']];
  case 's': case '1': case 'cpu': return [[1, '']];
  }
  return [[1, ''], [1e3, 'k'], [1e6, 'M'], [1e9, 'G'], [1e12, 'T']];
};

const prefixOf = (v, unit) => {
  const list = prefixes(unit);
  let found = list[0];
  for (const p of list) if (Math.abs(v) >= p[0] * (1 - 1e-9)) found = p;
  return found;
};

const unitText = (p, unit) => {
  switch (unit) {
  case 'us': return p[1];
  case 'B': case 'B/s': return p[1] ? p[1] + unit.slice(1) : unit.slice(1);
  case '1': return 'ratio';
  case 'cpu': return 'cores';
  }
  return (p[1] + ' ' + unit).trim();
};

const exponent = text => text.replace(/e([+-])(\d)$/, 'e$10$2'); // two digits, as Go writes it
const general = (v, n) => {
  const text = v.toExponential(n - 1), e = Number(text.slice(text.indexOf('e') + 1));
  if (e < -4 || e >= n) return exponent(text.replace(/\.?0+e/, 'e'));
  return String(Number(v.toPrecision(n)));
};

const digits = (v, n) => {
  const a = Math.abs(v);
  if (a !== 0 && (a >= 1e6 || a < 1e-4)) return general(v, n);
  let before = 1;
  for (let limit = 10; a >= limit && before < n; limit *= 10) before++;
  let text = v.toFixed(n - before);
  if (text.includes('.')) text = text.replace(/\.?0+$/, '');
  return text === '-0' ? '0' : text;
};

const shortText = (v, unit) => {
  const p = prefixOf(v, unit), sep = unit === 'us' || unit === 'B' || unit === 'B/s' ? ' ' : '';
  return (digits(v / p[0], 3) + sep + p[1]).trim();
};

const valueText = (v, unit) => {
  if (!finite(v)) return '–';
  const p = prefixOf(v, unit), number = digits(v / p[0], 4);
  return unit === '1' || unit === '' ? number + p[1] : number + ' ' + unitText(p, unit);
};

const two = n => n < 10 ? '0' + n : '' + n;

const xText = (v, unit) => {
  if (unit !== 's' || Math.abs(v) < 120 || Math.abs(v) > 1e12) return valueText(v, unit);
  const sign = v < 0 ? '-' : '', whole = Math.round(Math.abs(v));
  if (whole < 3600) return sign + Math.floor(whole / 60) + ':' + two(whole % 60);
  return sign + Math.floor(whole / 3600) + ':' + two(Math.floor(whole / 60) % 60) + ':' + two(whole % 60);
};

const niceStep = v => {
  const power = 10 ** Math.floor(Math.log10(v));
  for (const m of [1, 2, 5]) if (m * power >= v * (1 - 1e-9)) return m * power;
  return 10 * power;
};

const timeSteps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];
const clockUnit = span => span <= 120 ? 's' : span < 3600 ? 'min:s' : 'h:min';
const clockText = (v, span) => {
  const sign = v < 0 ? '-' : '', whole = Math.round(Math.abs(v));
  switch (clockUnit(span)) {
  case 's': return sign + whole;
  case 'min:s': return sign + Math.floor(whole / 60) + ':' + two(whole % 60);
  }
  return sign + Math.floor(whole / 3600) + ':' + two(Math.floor(whole / 60) % 60);
};

const plain = (v, n) => {
  const a = Math.abs(v);
  return a === 0 && n > 6 ? '0' : a >= 1e6 || n > 6 ? general(v, 3) : v.toFixed(n);
};

const timeTicks = (from, to, count) => {
  const span = to - from;
  const step = timeSteps.find(t => span / t <= count) || 86400 * niceStep(span / 86400 / count);
  const list = [];
  for (let v = Math.ceil(from / step - 1e-6) * step; v <= to + step * 1e-6; v += step) list.push([v + 0, clockText(v, span)]);
  return list;
};

const logTicks = (s, unit, count) => {
  let from = Math.ceil(Math.log10(s.from) - 1e-9);
  const to = Math.floor(Math.log10(s.to) + 1e-9), every = Math.max(1, Math.floor((to - from + count - 1) / count));
  let times = [1], list = [];
  if (to - from <= Math.floor(count / 3)) { times = [1, 2, 5]; from--; }
  for (let e = from; e <= to; e += every) {
    for (const m of times) {
      const v = m * 10 ** e;
      if (v >= s.from * (1 - 1e-9) && v <= s.to * (1 + 1e-9)) list.push([v, shortText(v, unit)]);
    }
  }
  const step = niceStep((s.to - s.from) / Math.max(count, 6));
  if (list.length < 2 && finite(step) && step > 0) {
    list = [];
    const last = Math.floor(s.to / step + 1e-6);
    for (let i = Math.ceil(s.from / step - 1e-6); i <= last && list.length < 50; i++) list.push([i * step, shortText(i * step, unit)]);
  }
  return list;
};

// ticks returns [value, text] pairs and the text of the unit.
const ticks = (s, unit, time, count) => {
  if (s.log) return [logTicks(s, unit, count), unitText([1, ''], unit)];
  const span = s.to - s.from;
  if (time && span >= 2 && span <= 1e9 && Math.abs(s.from) <= 1e12) return [timeTicks(s.from, s.to, count), clockUnit(span)];
  const p = prefixOf(far(s), unit);
  const step = niceStep(span / p[0] / count);
  if (!finite(step) || step <= 0) return [[], unitText(p, unit)];
  const n = Math.max(0, -Math.floor(Math.log10(step) + 1e-9)), list = [];
  const last = Math.floor(s.to / p[0] / step + 1e-6);
  for (let i = Math.ceil(s.from / p[0] / step - 1e-6); i <= last && list.length < 50; i++) {
    const v = i * step + 0;
    list.push([v * p[0], plain(v, n)]);
  }
  return [list, unitText(p, unit)];
};

const far = s => Math.max(Math.abs(s.from), Math.abs(s.to));
const rounded = (s, factor) => {
  const step = niceStep((s.to - s.from) / factor / 5) * factor;
  if (!finite(step) || step === 0) return s;
  return {from: s.from < 0 ? Math.floor(s.from / step * (1 + 1e-9)) * step : s.from, to: s.to > 0 ? Math.ceil(s.to / step * (1 - 1e-9)) * step : s.to};
};
const fromZero = (from, to, unit) => {
  if (from > to || from === 0 && to === 0) return {from: 0, to: 1};
  const s = {from: Math.min(from, 0), to: Math.max(to, 0)}, before = prefixOf(far(s), unit)[0], r = rounded(s, before);
  const after = prefixOf(far(r), unit)[0];
  return after === before ? r : rounded(s, after);
};

const decades = (from, to) => {
  if (from > to) return {from: 1, to: 10, log: true};
  const a = Math.floor(Math.log10(from) + 1e-9), b = Math.ceil(Math.log10(to) - 1e-9);
  return {from: 10 ** a, to: 10 ** (a >= b ? a + 1 : b), log: true};
};

window.bigsetReport = {valueText, xText, shortText, ticks, fromZero, decades, charts: []};

// ---- the theme ----

const root = document.documentElement;
const prefersDark = matchMedia('(prefers-color-scheme: dark)');
const isDark = () => root.dataset.theme ? root.dataset.theme === 'dark' : prefersDark.matches;
let colours = {};
const readColours = () => {
  const style = getComputedStyle(root);
  for (const name of ['text', 'muted', 'grid', 'axis', 'mark', 'c0', 'c1', 'c2', 'c3', 'c4', 'c5', 'c6', 'c7']) {
    colours[name] = style.getPropertyValue('--' + name).trim();
  }
};
const themeButton = document.getElementById('theme');
const themed = () => {
  themeButton.textContent = isDark() ? 'Light' : 'Dark';
  readColours();
  for (const c of window.bigsetReport.charts) if (c.u) c.u.redraw(false);
};
themeButton.hidden = false;
themeButton.addEventListener('click', () => {
  root.dataset.theme = isDark() ? 'light' : 'dark';
  themed();
});
prefersDark.addEventListener('change', themed);
themed();

// ---- the numbers ----

const packed = document.getElementById('data').textContent;
if (!packed || typeof DecompressionStream === 'undefined') return; // an old browser shows the SVGs
const bytes = Uint8Array.from(atob(packed), c => c.charCodeAt(0));
document.getElementById('hint').hidden = false;
const data = JSON.parse(await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))).text());
const xs = data.x.map(x => Array.isArray(x) ? x : Array.from({length: x.n}, (_, i) => x.a + i * x.s));

// ---- small parts ----

const make = (tag, cls, text) => {
  const e = document.createElement(tag);
  if (cls) e.className = cls;
  if (text !== undefined) e.textContent = text;
  return e;
};

const svgMake = (tag, attributes) => {
  const e = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const k in attributes) e.setAttribute(k, attributes[k]);
  return e;
};

const dashOf = style => data.dashes[(style + Math.floor(style / 8)) % data.dashes.length];

const swatch = (style, stacked) => {
  const s = svgMake('svg', {width: 26, height: 12, 'aria-hidden': 'true'});
  const n = style % 8;
  s.append(stacked ? svgMake('rect', {x: 1, y: 1, width: 24, height: 10, 'fill-opacity': 0.75, class: 'f' + n})
    : svgMake('path', {d: 'M1 6h24', 'stroke-width': 2.5, 'stroke-dasharray': dashOf(style), class: 's' + n}));
  return s;
};

// nearest returns the index of the value in an ascending list that is nearest to v, or -1 in an empty one.
const nearest = (list, v) => {
  let a = 0, b = list.length - 1;
  if (b < 0) return -1;
  while (b - a > 1) {
    const m = (a + b) >> 1;
    if (list[m] < v) a = m; else b = m;
  }
  return Math.abs(list[a] - v) <= Math.abs(list[b] - v) ? a : b;
};

// cut returns a text, or its first characters if it is longer.
const cut = (text, most) => {
  const chars = [...text];
  return chars.length > most ? chars.slice(0, most - 1).join('') + '…' : text;
};

const save = (name, type, text) => {
  const a = make('a');
  a.href = URL.createObjectURL(new Blob([text], {type}));
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 10000);
};

const heard = document.getElementById('heard');
const font = 12;
const few = 40;

// ---- groups: charts that zoom together ----

class Group {
  constructor(full) { this.full = full; this.span = full; this.charts = []; }
  zoom(from, to) {
    from = Math.max(from, this.full[0]);
    to = Math.min(to, this.full[1]);
    if (!(to > from)) return;
    this.span = [from, to];
    for (const c of this.charts) c.follow();
  }
  reset() { this.span = this.full; for (const c of this.charts) c.follow(); }
  get zoomed() { return this.span[0] !== this.full[0] || this.span[1] !== this.full[1]; }
}

let active = null; // the chart that the pointer, the finger or the keyboard is in

// ---- one chart ----

class Chart {
  constructor(spec, box, group) {
    this.spec = spec; this.box = box; this.group = group;
    this.lines = spec.l.map(l => ({...l, x: xs[l.x], shown: true}));
    this.u = null;
    group.charts.push(this);
  }

  get stacked() { return !!this.spec.st; }
  get logY() { return !!this.spec.ly; }

  open() {
    if (this.u) return;
    const canvas = make('div', 'canvas');
    canvas.tabIndex = 0;
    canvas.setAttribute('role', 'application');
    canvas.setAttribute('aria-roledescription', 'chart');
    canvas.setAttribute('aria-label', this.spec.t + '. Arrow keys move, plus and minus zoom, Escape resets.');
    this.canvas = canvas;
    this.tip = make('div', 'tip');
    this.tip.hidden = true;
    this.box.append(canvas);
    this.box.classList.add('on');
    this.under = make('div', 'under');
    this.box.append(this.under);
    this.addLegend();
    this.addTools();
    this.join();
    this.u = new uPlot(this.options(), this.stackedData(), canvas);
    canvas.append(this.tip);
    this.follow();
    this.listen();
    new ResizeObserver(() => this.u.setSize(this.size())).observe(canvas);
  }

  size() { return {width: Math.max(120, this.canvas.clientWidth), height: this.canvas.clientHeight}; }

  // join brings all lines to one list of X, as uPlot wants them: undefined where a line has no point, null where it has a gap.
  join() {
    const same = this.lines.every(l => l.x === this.lines[0].x);
    if (!this.lines.length) this.joined = [[]];
    else if (same) this.joined = [this.lines[0].x, ...this.lines.map(l => l.y)];
    else this.joined = uPlot.join(this.lines.map(l => [l.x, l.y]));
  }

  // stackedData returns what uPlot draws: the sums of the shown lines below if the chart is stacked.
  stackedData() {
    if (!this.stacked) return this.joined;
    let sum = this.joined[0].map(() => 0);
    return [this.joined[0], ...this.lines.map((l, i) => {
      l.base = sum;
      if (l.shown) sum = this.joined[i + 1].map((v, j) => sum[j] + (v || 0));
      l.top = sum;
      return sum;
    })];
  }

  options() {
    const s = this.spec, self = this;
    const axis = {stroke: () => colours.muted, font: font + 'px system-ui, sans-serif', gap: 4, filter: (u, splits) => splits,
      ticks: {stroke: () => colours.axis, width: 1, size: 4},
      incrs: (u, i, from, to) => [Math.max(5, to - from)]}; // splits chooses: this only fits always, for uPlot hides an axis without a fitting one
    const along = (isX, side) => (u, i, from, to) => {
      const room = isX ? u.bbox.width / uPlot.pxRatio / 80 : 7;
      side.list = ticks({from, to, log: isX ? s.lx : self.logY}, isX ? s.xu : s.u, isX && s.tm, Math.max(2, Math.floor(room)));
      return side.list[0].map(t => t[0]);
    };
    this.sideX = {list: [[], '']};
    this.sideY = {list: [[], '']};
    return {
      ...this.size(), padding: [30, 12, 0, 0], legend: {show: false},
      scales: {
        x: {time: false, distr: s.lx ? 3 : 1, range: () => self.group.span},
        y: {distr: this.logY ? 3 : 1, range: () => self.rangeY()},
      },
      axes: [
        {...axis, size: 42, grid: {show: false}, splits: along(true, this.sideX), values: () => this.sideX.list[0].map(t => t[1])},
        {...axis, grid: {stroke: () => colours.grid, width: 1}, splits: along(false, this.sideY), values: () => this.sideY.list[0].map(t => t[1]),
          size: (u, values) => this.widest(u, values)},
      ],
      series: [{}, ...this.lines.map((l, i) => ({
        label: l.n, stroke: () => colours['c' + l.s % 8], width: this.stacked ? 1 : 1.8,
        dash: this.stacked ? undefined : dashOf(l.s).split(' ').filter(Boolean).map(Number),
        points: {show: !this.stacked && l.x.length <= few, size: 5, fill: () => colours['c' + l.s % 8],
          filter: (u, si, show) => show ? null : this.alone(i)},
      }))],
      cursor: {y: false, drag: {x: true, y: false, setScale: false, dist: 4}, points: {size: 7},
        dataIdx: (u, si, at) => this.defined(si, at),
        bind: {dblclick: () => () => { self.group.reset(); return null; }}},
      hooks: {
        drawAxes: [u => this.drawBelow(u)], draw: [u => this.drawAbove(u)],
        setSelect: [u => this.selected(u)], setCursor: [u => this.moved(u)],
      },
    };
  }

  widest(u, values) {
    let most = 10;
    u.ctx.save();
    u.ctx.font = font * uPlot.pxRatio + 'px system-ui, sans-serif';
    for (const v of values || []) most = Math.max(most, u.ctx.measureText(v).width / uPlot.pxRatio);
    u.ctx.restore();
    return Math.ceil(most) + 14;
  }

  // rangeY fits Y to what is shown between the ends of X.
  rangeY() {
    const [a, b] = this.group.span;
    let from = Infinity, to = -Infinity;
    if (this.spec.rc && this.lines.every(l => l.shown)) from = to = this.spec.rc;
    const add = (x, values) => {
      if (!values) return;
      for (let i = 0; i < x.length; i++) {
        if (x[i] < a || x[i] > b || values[i] == null) continue;
        if (values[i] < from) from = values[i];
        if (values[i] > to) to = values[i];
      }
    };
    for (const l of this.lines) {
      if (!l.shown) continue;
      if (this.stacked) { add(this.joined[0], l.base); add(this.joined[0], l.top); continue; }
      add(l.x, l.y); add(l.x, l.lo); add(l.x, l.hi);
    }
    const s = this.logY ? decades(from, to) : fromZero(from, to, this.spec.u);
    return [s.from, s.to];
  }

  // defined returns the place nearest to at where the line has a point.
  defined(si, at) {
    const values = this.joined[si];
    if (!si || !values || values[at] !== undefined) return at;
    for (let d = 1; d < 30; d++) {
      if (values[at - d] !== undefined) return at - d;
      if (values[at + d] !== undefined) return at + d;
    }
    return at;
  }

  // alone returns the places of a line's points without neighbours, which a line alone would not show.
  alone(i) {
    const l = this.lines[i];
    if (this.stacked) return l.x.length === 1 ? [0] : null;
    if (l.lonely) return l.lonely;
    const values = this.joined[i + 1], at = [];
    values.forEach((v, j) => { if (v !== undefined) at.push(j); });
    l.lonely = at.filter((j, k) => values[j] !== null && (k === 0 || values[at[k - 1]] === null) && (k === at.length - 1 || values[at[k + 1]] === null));
    return l.lonely;
  }

  // between fills what is between two edges, in as many pieces as there are gaps.
  between(u, x, low, high, colour, opacity, edge) {
    const ctx = u.ctx;
    ctx.fillStyle = ctx.strokeStyle = colour;
    ctx.lineWidth = uPlot.pxRatio;
    ctx.globalAlpha = opacity;
    const px = v => u.valToPos(v, 'x', true), py = v => u.valToPos(v, 'y', true);
    for (let from = 0; from < x.length; from++) {
      let to = from;
      while (to < x.length && low[to] != null && high[to] != null) to++;
      if (to === from) continue;
      ctx.beginPath();
      for (let i = from; i < to; i++) ctx.lineTo(px(x[i]), py(high[i]));
      for (let i = to - 1; i >= from; i--) ctx.lineTo(px(x[i]), py(low[i]));
      ctx.closePath();
      ctx.fill();
      if (edge) {
        ctx.globalAlpha = edge;
        ctx.stroke();
        ctx.globalAlpha = opacity;
      }
      from = to;
    }
    ctx.globalAlpha = 1;
  }

  drawBelow(u) {
    const ctx = u.ctx, b = u.bbox;
    ctx.save();
    ctx.beginPath();
    ctx.rect(b.left, b.top, b.width, b.height);
    ctx.clip();
    for (const l of this.lines) {
      if (!l.shown) continue;
      const colour = colours['c' + l.s % 8];
      if (this.stacked) this.between(u, this.joined[0], l.base, l.top, colour, 0.75);
      else if (l.lo) this.between(u, l.x, l.lo, l.hi, colour, 0.18, 0.35);
    }
    ctx.restore();
  }

  drawAbove(u) {
    const ctx = u.ctx, b = u.bbox, r = uPlot.pxRatio;
    ctx.save();
    ctx.font = font * r + 'px system-ui, sans-serif';
    ctx.fillStyle = colours.muted;
    ctx.textBaseline = 'alphabetic';
    ctx.textAlign = 'left';
    ctx.fillText(cut(this.sideY.list[1], 100), 2 * r, b.top - 14 * r);
    ctx.textAlign = 'center';
    ctx.fillText([this.spec.xl, this.sideX.list[1]].filter(Boolean).map(t => cut(t, 60)).join(', '), b.left + b.width / 2, b.top + b.height + 36 * r);
    if (!this.lines.some(l => l.y.some(v => v != null))) ctx.fillText('no data', b.left + b.width / 2, b.top + b.height / 2);
    this.drawMarks(u, ctx, b, r);
    ctx.restore();
  }

  drawMarks(u, ctx, b, r) {
    let free = (6 * r) + ctx.measureText(cut(this.sideY.list[1], 100)).width + 6 * r;
    ctx.strokeStyle = colours.mark;
    ctx.lineWidth = r;
    ctx.setLineDash([4 * r, 4 * r]);
    for (const [at, text] of this.spec.m) {
      if (at < this.group.span[0] || at > this.group.span[1]) continue;
      const x = Math.round(u.valToPos(at, 'x', true));
      const short = cut(text, 28);
      const wide = ctx.measureText(short).width;
      const from = Math.min(x + 3 * r, b.left + b.width + 10 * r - wide);
      let top = b.top;
      if (from > free) {
        ctx.textAlign = 'left';
        ctx.fillText(short, from, b.top - 14 * r);
        free = from + wide + 8 * r;
        if (from === x + 3 * r) top -= 24 * r;
      }
      ctx.beginPath();
      ctx.moveTo(x, top);
      ctx.lineTo(x, b.top + b.height);
      ctx.stroke();
    }
  }

  // selected zooms to the span that was dragged over.
  selected(u) {
    const {left, width} = u.select;
    if (width < 4) return;
    const from = u.posToVal(left, 'x'), to = u.posToVal(left + width, 'x');
    u.setSelect({left: 0, top: 0, width: 0, height: 0}, false);
    this.group.zoom(from, to);
  }

  // follow shows the span of the group.
  follow() {
    if (!this.u) return;
    this.u.setScale('x', {min: this.group.span[0], max: this.group.span[1]});
    this.resetButton.hidden = !this.group.zoomed;
  }

  moved(u) {
    if (active !== this) return;
    const at = u.cursor.idx, gone = u.cursor.left < 0 || at == null;
    for (const c of this.group.charts) {
      if (c === this || !c.u) continue;
      const x = gone ? -10 : c.u.valToPos(u.data[0][at], 'x');
      c.u.setCursor({left: x < 0 || x > c.u.bbox.width / uPlot.pxRatio ? -10 : x, top: gone ? -10 : 0});
    }
    if (gone) { this.tip.hidden = true; return; }
    this.fillTip(u.data[0][at]);
    this.placeTip(u);
  }

  // values returns what the shown lines have at x: [line, text, text of its band].
  values(x) {
    const list = [];
    for (const l of this.lines) {
      if (!l.shown) continue;
      const i = nearest(l.x, x), n = l.x.length;
      const room = n > 1 ? (l.x[n - 1] - l.x[0]) / (n - 1) * 1.5 : 0;
      const far = i < 0 || (x < l.x[0] - room || x > l.x[n - 1] + room);
      const v = far ? null : l.y[i];
      let span = '';
      if (v != null && l.lo && l.lo[i] !== l.hi[i]) span = valueText(l.lo[i], this.spec.u) + ' to ' + valueText(l.hi[i], this.spec.u);
      list.push([l, v == null ? '–' : valueText(v, this.spec.u), span]);
    }
    return list;
  }

  markAt(x) {
    const near = (this.group.span[1] - this.group.span[0]) * 0.008;
    return this.spec.m.filter(m => Math.abs(m[0] - x) <= near).map(m => m[1]);
  }

  fillTip(x) {
    const rows = [make('div', '', '')];
    rows[0].append(make('b', '', (this.spec.xl ? this.spec.xl + ' ' : '') + xText(x, this.spec.xu)));
    for (const text of this.markAt(x)) rows.push(make('div', 'span', text));
    const list = this.values(x);
    for (const [l, text, span] of this.stacked ? list.reverse() : list) {
      const row = make('div', 'row');
      row.append(swatch(l.s, this.stacked), make('span', '', l.n), make('b', '', text));
      rows.push(row);
      if (span) {
        const more = make('div', 'row span');
        more.append(make('span'), make('span', '', span));
        rows.push(more);
      }
    }
    this.tip.replaceChildren(...rows);
    this.tip.hidden = false;
  }

  placeTip(u) {
    const over = u.over.offsetLeft, wide = this.tip.offsetWidth, room = this.canvas.clientWidth;
    let x = over + u.cursor.left + 14;
    if (x + wide > room) x = over + u.cursor.left - 14 - wide;
    this.tip.style.left = clamp(x, 0, Math.max(0, room - wide)) + 'px';
    this.tip.style.top = '26px';
  }

  addLegend() {
    const box = make('div', 'legend');
    box.setAttribute('role', 'group');
    box.setAttribute('aria-label', 'Lines of ' + this.spec.t);
    this.buttons = this.lines.map((l, i) => {
      const b = make('button');
      b.type = 'button';
      b.title = 'Click to hide or show, with Shift to show this line alone';
      b.append(swatch(l.s, this.stacked), make('span', '', l.n || 'line ' + (i + 1)));
      b.addEventListener('click', e => this.toggle(i, e.shiftKey));
      box.append(b);
      return b;
    });
    this.under.append(box);
    this.press();
  }

  toggle(i, alone) {
    if (alone) {
      const only = this.lines.every((l, j) => l.shown === (j === i));
      this.lines.forEach((l, j) => { l.shown = only || j === i; });
    } else {
      this.lines[i].shown = !this.lines[i].shown;
    }
    this.press();
    this.u.batch(() => {
      this.lines.forEach((l, j) => { if (this.u.series[j + 1].show !== l.shown) this.u.setSeries(j + 1, {show: l.shown}); });
      if (this.stacked) this.u.setData(this.stackedData(), false);
      this.follow();
    });
    this.u.redraw(true, true);
  }

  press() { this.buttons.forEach((b, i) => b.setAttribute('aria-pressed', this.lines[i].shown)); }

  addTools() {
    const box = make('div', 'tools');
    const button = (text, title, f) => {
      const b = make('button', '', text);
      b.type = 'button';
      b.title = title;
      b.addEventListener('click', f);
      box.append(b);
      return b;
    };
    const name = this.spec.t.toLowerCase().replace(/[^a-z0-9]+/g, '-').replace(/^-|-$/g, '') || 'chart';
    this.resetButton = button('Reset zoom', 'Show everything; so does a double click', () => this.group.reset());
    this.resetButton.hidden = true;
    button('SVG', 'Save this plot as a vector graphic', () => save(name + '.svg', 'image/svg+xml', this.svg()));
    button('CSV', 'Save the numbers that this page has', () => save(name + '.csv', 'text/csv', this.csv()));
    this.under.append(box);
  }

  // svg returns the page's SVG with the light theme's colours in place of classes.
  svg() {
    const s = this.box.querySelector('.still svg').cloneNode(true);
    const [, , width, height] = s.getAttribute('viewBox').split(' ');
    s.setAttribute('width', width);
    s.setAttribute('height', height);
    for (const e of s.querySelectorAll('[class]')) {
      for (const c of e.getAttribute('class').split(' ')) e.setAttribute(c[0] === 'f' ? 'fill' : 'stroke', data.inks[c.slice(1)]);
      e.removeAttribute('class');
    }
    s.prepend(svgMake('rect', {width, height, fill: '#fff'}));
    return new XMLSerializer().serializeToString(s);
  }

  csv() {
    const quote = t => '"' + (/^[=+\-@\t\r]/.test(t) ? "'" : '') + t.replace(/"/g, '""') + '"';
    const unit = u => u ? ' [' + u + ']' : '';
    const columns = [], head = [quote((this.spec.xl || 'x') + unit(this.spec.xu))];
    for (const l of this.lines) {
      const place = new Map(l.x.map((x, i) => [x, i]));
      for (const [more, values] of [['', l.y], [' least', l.lo], [' greatest', l.hi]]) {
        if (!values) continue;
        head.push(quote(l.n + more + unit(this.spec.u)));
        columns.push(x => { const v = values[place.get(x)]; return v == null ? '' : v; });
      }
    }
    return [head, ...this.joined[0].map(x => [x, ...columns.map(f => f(x))])].map(r => r.join(',')).join('\n') + '\n';
  }

  listen() {
    const over = this.u.over;
    const enter = () => { active = this; };
    over.addEventListener('mouseenter', enter, true);
    over.addEventListener('mousemove', enter, true);
    this.canvas.addEventListener('focus', enter);
    this.canvas.addEventListener('blur', () => { active = this; this.u.setCursor({left: -10, top: -10}); });
    this.canvas.addEventListener('keydown', e => this.key(e));
    over.addEventListener('touchstart', e => this.touch(e), {passive: true});
    over.addEventListener('touchmove', e => this.touch(e), {passive: false});
    over.addEventListener('touchend', () => { this.pinch = null; });
  }

  // touch moves the cursor with one finger, and zooms with two.
  touch(e) {
    active = this;
    const left = this.u.over.getBoundingClientRect().left, at = Array.from(e.touches, t => t.clientX - left);
    if (at.length === 1 && !this.pinch) {
      this.u.setCursor({left: clamp(at[0], 0, this.u.over.clientWidth), top: 0});
      return;
    }
    if (at.length !== 2) return;
    if (e.type === 'touchmove' && e.cancelable) e.preventDefault();
    at.sort((a, b) => a - b);
    if (!this.pinch) { this.pinch = at.map(v => this.u.posToVal(v, 'x')); return; }
    // The two values that the fingers first touched stay below them.
    const wide = this.u.over.clientWidth, [a, b] = this.pinch.map(v => this.spec.lx ? Math.log10(v) : v);
    const per = (b - a) / Math.max(20, at[1] - at[0]), from = a - at[0] * per, to = from + wide * per;
    this.spec.lx ? this.group.zoom(10 ** from, 10 ** to) : this.group.zoom(from, to);
  }

  key(e) {
    active = this;
    const x = this.u.data[0], [from, to] = this.group.span;
    const first = x.findIndex(v => v >= from), last = x.findLastIndex(v => v <= to);
    if (first < 0 || last < first) return;
    const at = this.u.cursor.left >= 0 && this.u.cursor.idx != null ? this.u.cursor.idx : null;
    const step = e.shiftKey ? 10 : 1;
    let go;
    switch (e.key) {
    case 'ArrowRight': go = at == null ? first : at + step; break;
    case 'ArrowLeft': go = at == null ? last : at - step; break;
    case 'Home': go = first; break;
    case 'End': go = last; break;
    case '+': case '=': this.zoomBy(0.5, x[at == null ? (first + last) >> 1 : at]); break;
    case '-': this.zoomBy(2, x[at == null ? (first + last) >> 1 : at]); break;
    case 'Escape': case '0': this.group.reset(); break;
    default: return;
    }
    e.preventDefault();
    if (go === undefined) return;
    go = clamp(go, first, last);
    this.u.setCursor({left: clamp(this.u.valToPos(x[go], 'x'), 0, this.u.over.clientWidth), top: 0});
    heard.textContent = [xText(x[go], this.spec.xu), ...this.markAt(x[go]), ...this.values(x[go]).map(([l, text]) => l.n + ' ' + text)].join('; ');
  }

  zoomBy(factor, around) {
    const log = this.spec.lx, f = v => log ? Math.log10(v) : v, g = v => log ? 10 ** v : v;
    const [from, to] = this.group.span.map(f), c = f(around);
    this.group.zoom(g(c - (c - from) * factor), g(c + (to - c) * factor));
  }
}

// ---- all charts: those in view first ----

const clocks = new Map();
const waiting = new Map();
for (const box of document.querySelectorAll('.plot')) {
  const spec = data.charts[Number(box.dataset.chart)];
  let group = spec.tm ? clocks.get(spec.g) : null;
  if (!group) group = new Group(spec.r);
  if (spec.tm) clocks.set(spec.g, group);
  const chart = new Chart(spec, box, group);
  window.bigsetReport.charts.push(chart);
  waiting.set(box, chart);
}
const open = box => {
  const c = waiting.get(box);
  waiting.delete(box);
  if (c) c.open();
};
const watch = new IntersectionObserver(list => {
  for (const e of list) if (e.isIntersecting) { watch.unobserve(e.target); open(e.target); }
  performance.mark('bigset-drawn');
}, {rootMargin: '600px'});
for (const box of waiting.keys()) watch.observe(box);
const rest = () => {
  const next = waiting.keys().next();
  if (next.done) return;
  open(next.value);
  setTimeout(rest, 20);
};
setTimeout(rest, 300);
})();
