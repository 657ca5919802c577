return 'x'.repeat(1000000).length + (await github.big({ bytes: 100000 })).length;
