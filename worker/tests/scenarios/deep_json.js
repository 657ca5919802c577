let v = 'x';
for (let i = 0; i < 40; i++) v = [v];
return await github.echo({ v });
