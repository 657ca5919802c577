// `eval` is not there to be called, by any name.
//= value ["undefined","ReferenceError"]

//# direct: code by a direct eval
return [typeof globalThis.eval, tried(() => eval('1'))];
//# escaped: code by an eval whose name is written with an escape
return [typeof globalThis['\x65val'], tried(() => \u0065val('1'))];
//# escaped_in_braces: code by an eval whose name is written with an escape
return [typeof globalThis.\u{65}val, tried(() => ev\u{61}l('1'))];
//# concatenated: code by an eval whose name is put together
const name = ['e', 'v', 'a', 'l'].join('');
return [typeof globalThis[name], tried(() => { if (!(name in globalThis)) throw new ReferenceError(); globalThis[name]('1'); })];
//# indirect: code by an indirect eval
return [typeof Reflect.get(globalThis, 'eval'), tried(() => (0, eval)('1'))];
//# optional: code by an optional call
return [typeof globalThis?.eval, tried(() => eval?.('1'))];
//# homoglyph: code by a letter that looks like another
return [typeof globalThis['еval'], tried(() => еval('1'))];
//# normalised: code by a name that Unicode folds to the real one
return [typeof globalThis['ｅｖａｌ'.normalize('NFKC')], tried(() => ｅｖａｌ('1'))];
//# timer_with_text: code as the text of a timer
return [typeof globalThis.eval, tried(() => setTimeout('globalThis.got = 1', 0)) === 'TypeError' ? 'ReferenceError' : 'ran'];
//# microtask_with_text: code as the text of a microtask
return [typeof globalThis.eval, tried(() => queueMicrotask('globalThis.got = 1')) === 'TypeError' ? 'ReferenceError' : 'ran'];
//# control_names_resolve: an escaped name is a name
const evil = 1;
return [typeof \u0065vil === 'number' ? 'undefined' : 'odd', tried(() => missing())];
