const name = 'world', n = 3;
return [`hello ${name}`, `${n} and ${n + 1}`, `{braces}`];
