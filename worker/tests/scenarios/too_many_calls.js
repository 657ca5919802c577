for (let i = 0; i < 100; i++) await github.echo({});
