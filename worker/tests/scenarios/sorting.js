const rows = [{ n: 3, s: 'c' }, { n: 1, s: 'a' }, { n: 2, s: 'b' }];
return rows.sort((a, b) => a.n - b.n).map((r) => r.s).concat([3, 1, 2].sort().reverse());
