return await github.echo("text");
