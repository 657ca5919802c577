// Comments, line ends and strings hide no code, and mean the same to engine and reader.

//# line_separator_ends_comment: code behind a line end that editors do not show
//= value 2
let x = 1; // x = 2;
return x;
//# paragraph_separator_ends_comment: code behind a line end that editors do not show
//= value 2
let x = 1; // x = 2;
return x;
//# carriage_return_ends_comment: code behind a lone carriage return
//= value 2
let x = 1; //
x = 2;
return x;
//# next_line_is_no_end: a character that other languages take for a line end
//= syntax
let x = 1;return x;
//# source_url: a name of the script's choice in stacks
//= value false
try { null.x; } catch (e) { return /evil|passwd/.test(e.stack); }
// # sourceURL=file:///etc/passwd-evil
//# source_mapping: a file that an engine would fetch
//= value 1
return 1;
// # sourceMappingURL=http://127.0.0.1/evil.map
//# use_sloppy: a directive that nobody has
//= value true
'use sloppy'; 'no strict';
return (function () { return this; })() === undefined;
//# use_asm: a module for another compiler
//= value 3
function m() { 'use asm'; function f(a, b) { a = a | 0; b = b | 0; return a + b | 0; } return { f }; }
return m().f(1, 2);
//# comment_in_keyword_gap: code between comments
//= v8 throws EvalError: Code generation from strings disallowed
//= quickjs throws TypeError: eval is not supported
return (/**/()/**/=>/**/{})/**/./**/constructor/**/(/**/'return 1'/**/)/**/()/**/;
//# string_with_code: text that looks like an end of the wrapper
//= value "}\nimport x from 'y'; export default 1; {"
return "}\nimport x from 'y'; export default 1; {";
//# template_with_code: text that looks like an end of the wrapper
//= value "};\nexport default 1;{"
return `};
export default 1;{`;
//# regex_or_division: a reading that depends on what came before
//= value 2
let a = 4, g = 1;
return a /2/ g;
//# semicolon_insertion: a call that a reader takes for two statements
//= throws TypeError
const a = 1
(() => {})()
//# confusable_names: two names that look the same
//= value [1,2]
const а = 1, a = 2;
return [а, a];
//# unnormalised_names: two names that are the same after normalising
//= value [1,2]
const é = 1, é = 2;
return [é, é];
//# default_ignorable: a name with an invisible letter
//= value [1,2]
const x = 1, xㅤ = 2;
return [x, xㅤ];
