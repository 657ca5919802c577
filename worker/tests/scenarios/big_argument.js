const r = await github.echo({ text: "x".repeat(2000) });
return r.text.length;
