return (await github.big({ bytes: 3000000 })).length;
