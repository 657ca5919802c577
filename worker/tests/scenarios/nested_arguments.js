return await github.echo({ filter: { labels: ["a", { deep: [null, true, 1.5] }], empty: {} } });
