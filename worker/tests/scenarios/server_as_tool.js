return await github({ a: 1 });
