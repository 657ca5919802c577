// More CPU, memory, stack, output or calls than a run may use. The run ends by its limit, and says which; where one step
// of a native cannot be stopped the worker may end with it (`fatal`).

//# regex_bomb: a pattern that backtracks exponentially
//= cpu
//@ short
return /^(a+)+$/.test('a'.repeat(40) + 'b');
//# regex_bomb_alternation: a pattern that backtracks exponentially
//= cpu
//@ short
return /^(a|a|aa)+$/.test('a'.repeat(60) + 'b');
//# regex_bomb_lookahead: a pattern that backtracks exponentially
//= cpu
//@ short
return /^(?=(a+)+b)a/.test('a'.repeat(40));
//# regex_bomb_backreference: a pattern that backtracks exponentially
//= cpu
//@ short
return /(.*)\1(.*)\2(.*)\3(.*)\4x/.test('a'.repeat(400));
//# regex_polynomial: a pattern that backtracks polynomially, over a long text
//= cpu
//@ short
return /(.*)*(.*)*(.*)*x/.test('a'.repeat(100000));
//# regex_bomb_in_replace: a pattern that backtracks exponentially, in a native that loops
//= cpu
//@ short
return ('a'.repeat(40) + 'b').repeat(10).replace(/(a+)+$/g, '').length;
//# regex_bomb_in_split: a pattern that backtracks exponentially, in a native that loops
//= cpu
//@ short
return ('a'.repeat(40) + 'b').split(/(a+)+$/).length;
//# regex_nested_quantifiers: a pattern whose program is exponential
//= cpu or heap or throws SyntaxError or throws InternalError or value false
//@ short small_heap
return new RegExp('((((((a{1,100}){1,100}){1,100}){1,100}){1,100}){1,100})').test('b');
//# regex_of_any_length: a pattern that is compiled for ever
//= cpu or heap or throws SyntaxError or throws InternalError or value true
//@ small_heap fatal
return new RegExp('(a|b)'.repeat(500000)).test('') === false;
