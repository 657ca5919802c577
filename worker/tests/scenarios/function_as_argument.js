return await github.echo({ n: [1, 2, 3].map((n) => n * n).filter((n) => n > 1) });
