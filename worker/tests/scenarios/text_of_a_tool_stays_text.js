return await github.raw({ json: '"{\\"a\\": 1}"' });
