// The time and the chance of the machine: a script has only those of its run. A clock would also tell how long other work
// takes.

//# clock_of_dates: every road to a date without arguments
//= value []
const now = 1750000000000;
class Sub extends Date {}
class Bare { constructor() { return Reflect.construct(Date, [], new.target); } }
const roads = {
  now: () => Date.now(), detached: () => (0, Date.now)(), other: () => Date.now.call({}), date: () => +new Date(),
  sub: () => +new Sub(), bare: () => Date.prototype.getTime.call(new Bare()), bound: () => +new (Date.bind({}))(),
  bound_args: () => +new (Date.bind({}, ...[]))(), of_prototype: () => +new Date.prototype.constructor(),
  of_instance: () => +new (new Date(0).constructor)(), of_sub: () => +new (Object.getPrototypeOf(Sub))(),
  of_descriptor: () => +new (Object.getOwnPropertyDescriptor(globalThis, 'Date').value)(),
  construct: () => +Reflect.construct(Date, []), spread: () => +new Date(...[]), text: () => Date.parse(Date()),
  applied: () => Date.parse(Reflect.apply(Date, null, [5])), clone: () => +structuredClone(new Date()),
  invoked: () => +Reflect.construct(Date, [], Array) || now, proxied: () => +new (new Proxy(Date, {}))(),
};
return Object.keys(roads).filter((road) => roads[road]() !== now);
//# clock_of_formats: formats that take the present for a missing date
//= value []
const { Intl } = globalThis;
if (Intl === undefined) return [];
const now = 1750000000000;
const format = new Intl.DateTimeFormat('en', { dateStyle: 'full', timeStyle: 'full', timeZone: 'UTC' });
const zone = new Intl.DateTimeFormat().resolvedOptions().timeZone;
const roads = {
  format: () => format.format(), undefined: () => format.format(undefined), same: () => format.format === format.format && format.format(now),
  parts: () => format.formatToParts().map(({ value }) => value).join(''),
  getter: () => Object.getOwnPropertyDescriptor(Intl.DateTimeFormat.prototype, 'format').get.call(format)(),
  zone: () => (zone === 'UTC' ? format.format(now) : zone),
};
return Object.keys(roads).filter((road) => roads[road]() !== format.format(now));
//# setting_the_clock: the script changes its clock, or what keeps it
//= value ["TypeError","TypeError","TypeError","TypeError","TypeError","TypeError","TypeError",1750000000000]
const { Date: Own } = globalThis;
return [
  tried(() => { Date.now = () => 0; }), tried(() => { Date.prototype.constructor = Object; }),
  tried(() => { globalThis.Date = Object; }), tried(() => { Object.prototype.construct = () => ({}); }),
  tried(() => { Math.random = () => 0; }), tried(() => { Date.apply = 1; }),
  tried(() => Object.defineProperty(Date, 'prototype', { value: {} })), new Own().getTime(),
];
//# natives_as_constructors: the functions of the host behind the clock and the numbers
//= value ["TypeError","TypeError",["length","name"],["length","name"],"now","random"]
return [
  tried(() => new Date.now()), tried(() => new Math.random()),
  Reflect.ownKeys(Date.now).sort(), Reflect.ownKeys(Math.random).sort(), Date.now.name, Math.random.name,
];
//# clock_of_computing: a loop that sees the time pass
//= value 1
const seen = new Set();
for (let i = 0; i < 30000; i++) seen.add(Date.now());
return seen.size;
//# clock_of_pauses: promises and timers without delay that see the time pass
//= value 1
const seen = new Set();
for (let i = 0; i < 1000; i++) { await null; seen.add(Date.now()); }
for (let i = 0; i < 8; i++) { await new Promise((done) => setTimeout(done)); seen.add(Date.now()); }
return seen.size;
//# clock_of_a_flood_of_timers: more timers than a run may have, to see each pass
//= throws RangeError: setTimeout: more than 1000 timers in one run
for (let i = 0; i < 2000; i++) setTimeout(() => {}, 1 + (i % 9));
//# chance_of_the_machine: numbers that differ from run to run
//= value [0.2576700652649109,0.43935702292436196]
return [Math.random(), (0, Math.random)()];
//# depth_of_the_stack: a number that depends on where the stack is
//= value true
const depth = () => { try { return 1 + depth(); } catch { return 1; } };
const first = depth();
return first === depth() && first > 100;
//# control_time_moves: the probe sees a reply's time
//= value [1000,true]
const start = Date.now();
await github.echo({});
return [Date.now() - start, Date.now() === Date.parse(new Date().toISOString())];
//# control_formats_are_there: where an engine has formats, the probe above tries them
//= v8 value "object"
//= quickjs value "undefined"
return typeof globalThis.Intl;
