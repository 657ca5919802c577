return await github.echo({ from: 1, class: 2, if: 3, return: 4, lambda: 5 });
