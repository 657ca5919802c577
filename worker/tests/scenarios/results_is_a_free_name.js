const results = [];
for (let n = 0; n < 2; n++) results.push(n);
return results;
