class Day extends Date {
  constructor(...args) { super(...args); }
  next() { return new Day(this.getTime() + 86400000); }
}
const day = new Day('2024-02-28');
const Bound = Date.bind(null);
const Other = function () {};
Other.prototype = Object.create(Date.prototype);
const now = 1750000000000;
const isNow = (made) => made.getTime() === now;
return {
  names: [Date.length, Date.name, typeof Date, Date.toString().replace(/\s+/g, ' '), `${Date}` === Date.toString()],
  instances: [new Date(0) instanceof Date, day instanceof Date, day instanceof Day, day.next().toISOString()],
  roads: [
    isNow(new Date()), isNow(new Day()), isNow(new Bound()), isNow(Reflect.construct(Date, [])),
    isNow(new Date.prototype.constructor()), isNow(new (new Date(0).constructor)()),
    isNow(new (Object.getPrototypeOf(Day))()), isNow(structuredClone(new Date())),
    Date.prototype.getTime.call(Reflect.construct(Date, [], Other)) === now,
    Reflect.construct(Date, [], Other) instanceof Other, Reflect.apply(Date.now, undefined, []) === now,
    Date(0) === new Date().toString(), Date.call({}) === Date.bind(null)(),
  ],
  texts: [new Date(2020, 6, 1, 12).toISOString(), new Date('2020-07-01T12:00').toISOString(), Date.UTC(2020, 6),
    Date.parse('2020-07-01T12:00:00+02:00'), new Date(2020, 6, 1).getTimezoneOffset(), new Date(NaN).getTime() !== 0,
    new Date(undefined).getTime() === 0, new Date(new Date(5)).getTime(), JSON.stringify(new Date(0))],
  held: [Object.isFrozen(Date), Object.isFrozen(Date.now), Date === globalThis.Date, 'handler' in Date,
    Object.getOwnPropertyDescriptor(Date.prototype, 'constructor').value === Date],
};
