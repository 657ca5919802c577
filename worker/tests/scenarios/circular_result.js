const a = [];
a.push(a);
return a;
