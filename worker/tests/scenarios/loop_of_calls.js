const seen = [];
for (const n of [1, 2, 3]) seen.push((await github.echo({ n })).n * 10);
return seen;
